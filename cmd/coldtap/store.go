package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"coldtap/internal/config"
	"coldtap/internal/readlimit"
	"coldtap/rangeio"
)

// openStore opens the configured object store. create makes a missing file store's folder: only commands that write do;
// others wait for it to appear.
func openStore(ctx context.Context, cfg config.Config, create bool) (rangeio.Backend, error) {
	switch cfg.Store.Kind {
	case "file":
		if !create {
			return rangeio.OpenFileLater(cfg.Store.File.Dir), nil
		}
		return rangeio.OpenFile(cfg.Store.File.Dir, true)
	case "gcs":
		g := cfg.Store.GCS
		return rangeio.OpenGCS(ctx, rangeio.GCSConfig{
			Bucket: g.Bucket, Prefix: g.Prefix, Endpoint: g.Endpoint, CredentialsFile: g.CredentialsFile, Anonymous: g.Anonymous,
			Connections: cfg.Reader.Threads,
		})
	case "azure":
		return openAzure(ctx, cfg)
	}
	s3 := cfg.Store.S3
	return rangeio.OpenS3(ctx, rangeio.S3Config{
		Bucket: s3.Bucket, Region: s3.Region, Endpoint: s3.Endpoint, Prefix: s3.Prefix, PathStyle: s3.PathStyle,
		Checksums: s3.Checksums, Connections: cfg.Reader.Threads,
	})
}

// openClient opens the configured store for one command; end closes it.
func openClient(ctx context.Context, cfg config.Config, create bool, log *slog.Logger) (store *rangeio.Client, end func(), err error) {
	backend, err := openStore(ctx, cfg, create)
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	return rangeio.NewClient(backend, rangeio.Config{Logger: log}), func() { backend.Close() }, nil
}

func openAzure(ctx context.Context, cfg config.Config) (rangeio.Backend, error) {
	a := cfg.Store.Azure
	store := rangeio.AzureConfig{
		Account: a.Account, Endpoint: a.Endpoint, Container: a.Container, Prefix: a.Prefix, Connections: cfg.Reader.Threads,
	}
	for _, s := range []struct {
		to                *string
		name, value, file string
	}{
		{&store.AccountKey, "account_key", a.AccountKey, a.AccountKeyFile},
		{&store.ConnectionString, "connection_string", a.ConnectionString, a.ConnectionStringFile},
		{&store.SAS, "sas", a.SAS, a.SASFile},
	} {
		var err error
		if *s.to, err = secret(s.value, s.file); err != nil {
			return nil, fmt.Errorf("azure.%s_file: %w", s.name, err)
		}
	}
	return rangeio.OpenAzure(ctx, store)
}

// maxSecret bounds a file that holds one.
const maxSecret = 64 << 10

// secret gives a value, or what a file holds, white space around it left out.
func secret(value, file string) (string, error) {
	if file == "" {
		return value, nil
	}
	raw, err := readlimit.File(file, maxSecret)
	if errors.Is(err, readlimit.ErrTooLarge) {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return strings.TrimSpace(string(raw)), err
}

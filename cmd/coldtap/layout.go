package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"coldtap/inspect"
	"coldtap/internal/config"
	"coldtap/layout/aiven"
	"coldtap/layout/local"
	"coldtap/rangeio"

	"github.com/prometheus/client_golang/prometheus"
)

// aivenObjects reads and names the objects of Aiven's plugin.
type aivenObjects struct {
	*aiven.Layout
	*aiven.Scanner
}

// openLayout makes the configured layout over a store. memory bounds what the layout holds while it opens stored chunks; 0
// is its default.
func openLayout(cfg config.Config, store *rangeio.Client, memory int64, registry prometheus.Registerer) (inspect.Layout, error) {
	switch cfg.Layout.Kind {
	case "aiven":
		l, err := openAiven(cfg, store, memory, registry)
		if err != nil {
			return nil, err
		}
		return aivenObjects{l, aiven.NewScanner(l)}, nil
	case "local":
		return local.New(store, localPrefix(cfg)), nil
	}
	return inspect.NativeLayout(store), nil
}

// localFolder is what LocalTieredStorage makes within the folder that it is given (rsm.config.dir).
const localFolder = "kafka-tiered-storage"

// localPrefix lets store.file.dir name either the folder that the plugin was given or the one that it made in it.
func localPrefix(cfg config.Config) string {
	if cfg.Store.Kind == "file" {
		if info, err := os.Stat(filepath.Join(cfg.Store.File.Dir, localFolder)); err == nil && info.IsDir() {
			return localFolder + "/"
		}
	}
	return ""
}

func openAiven(cfg config.Config, store *rangeio.Client, memory int64, registry prometheus.Registerer) (*aiven.Layout, error) {
	options := aiven.Options{Prefixes: cfg.Layout.Aiven.Prefixes(), Memory: memory, Registerer: registry}
	var problems []error
	for _, k := range cfg.Layout.Aiven.EncryptionKeys {
		pem, err := os.ReadFile(k.PrivateKeyFile)
		if err != nil {
			problems = append(problems, fmt.Errorf("layout.aiven.encryption_keys: %s: %w", k.ID, err))
			continue
		}
		options.Keys = append(options.Keys, aiven.PrivateKey{ID: k.ID, PEM: pem})
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	l, err := aiven.New(store, options)
	if err != nil {
		return nil, fmt.Errorf("layout.aiven: %w", err)
	}
	return l, nil
}

// openingMemory is the part of limits.decode_memory that the layout has for stored chunks that are sealed or compressed;
// decompressing batches and building bodies have the rest. Half each: a chunk is opened before its batches are.
func openingMemory(cfg config.Config) int64 {
	if cfg.Layout.Kind != "aiven" {
		return 0
	}
	return int64(cfg.Limits.DecodeMemory) / 2
}

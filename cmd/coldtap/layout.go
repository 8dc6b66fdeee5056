package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"coldtap/inspect"
	"coldtap/internal/config"
	"coldtap/internal/readlimit"
	"coldtap/layout/aiven"
	"coldtap/layout/local"
	"coldtap/layout/native"
	"coldtap/rangeio"

	"github.com/prometheus/client_golang/prometheus"
)

// openLayout makes the configured layout over a store. memory bounds what the layout holds while it opens stored
// chunks; 0 is its default.
func openLayout(cfg config.Config, store *rangeio.Client, memory int64, registry prometheus.Registerer) (inspect.Layout, error) {
	switch cfg.Layout.Kind {
	case "aiven":
		l, err := openAiven(cfg, store, memory, registry)
		if err != nil {
			return nil, err
		}
		return l, nil
	case "local":
		return local.New(store, localPrefix(cfg)), nil
	}
	return native.New(store, ""), nil
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
	keys, err := encryptionKeys(cfg.Layout.Aiven)
	if err != nil {
		return nil, err
	}
	l, err := aiven.New(store, aiven.Options{
		Prefixes: cfg.Layout.Aiven.Prefixes(), Memory: memory, Registerer: registry,
		Keys: keys, Reload: func() ([]aiven.PrivateKey, error) { return encryptionKeys(cfg.Layout.Aiven) },
	})
	if err != nil {
		return nil, fmt.Errorf("layout.aiven: %w", err)
	}
	return l, nil
}

const (
	keyFileSize = 64 << 10
	mostKeys    = 1000
	keyEnding   = ".pem"
)

// encryptionKeys reads the private keys as they are now.
func encryptionKeys(cfg config.AivenLayout) (keys []aiven.PrivateKey, err error) {
	var problems []error
	add := func(key, id, path string) {
		pem, err := readlimit.File(path, keyFileSize)
		if err != nil {
			problems = append(problems, fmt.Errorf("layout.aiven.%s: %s: %w", key, id, err))
			return
		}
		keys = append(keys, aiven.PrivateKey{ID: id, PEM: pem})
	}
	for _, k := range cfg.EncryptionKeys {
		add("encryption_keys", k.ID, k.PrivateKeyFile)
	}
	if dir := cfg.EncryptionKeysDir; dir != "" {
		files, err := os.ReadDir(dir)
		if err == nil && len(files) > mostKeys {
			err = fmt.Errorf("%s has %d files, at most %d are allowed", dir, len(files), mostKeys)
		}
		if err != nil {
			return nil, errors.Join(append(problems, fmt.Errorf("layout.aiven.encryption_keys_dir: %w", err))...)
		}
		for _, file := range files {
			if id, ok := strings.CutSuffix(file.Name(), keyEnding); ok && id != "" {
				add("encryption_keys_dir", id, filepath.Join(dir, file.Name()))
			}
		}
	}
	return keys, errors.Join(problems...)
}

// openingMemory is the part of limits.decode_memory that the layout has for stored chunks that are sealed or
// compressed; decompressing batches and building bodies have the rest. Half each: a chunk is opened before its batches
// are.
func openingMemory(cfg config.Config) int64 {
	if cfg.Layout.Kind != "aiven" {
		return 0
	}
	return int64(cfg.Limits.DecodeMemory) / 2
}

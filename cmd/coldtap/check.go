package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"coldtap/internal/config"
	"coldtap/rangeio"
)

// checkParts makes every part that a valid configuration turns on, as far as nothing has to be connected to, and
// reports everything that keeps one from being made: names and endpoints, keys, certificates, secrets and the files
// they are in.
func checkParts(cfg config.Config) error {
	var problems []error
	backend, err := openStore(context.Background(), cfg, false)
	if err == nil {
		err = backend.Close()
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("store: %w", err))
	}
	if cfg.Store.Kind == "file" {
		problems = append(problems, checkFolder(cfg.Store.File.Dir))
	}
	_, err = openLayout(cfg, rangeio.NewClient(rangeio.OpenFileLater(os.DevNull), rangeio.Config{}), openingMemory(cfg), nil)
	problems = append(problems, err)
	if cfg.Metadata.Kind == "kafka" {
		_, err := clusterConfig(cfg.Metadata.Kafka, nil, nil)
		problems = append(problems, err)
		if err := saslOptions(cfg.Metadata.Kafka.SASL).Check(); err != nil {
			problems = append(problems, fmt.Errorf("metadata.kafka.sasl: %w", err))
		}
	}
	return errors.Join(problems...)
}

// checkFolder refuses a file in the place of the store's folder, or of one above it. A folder that is not there yet is
// made by the first offload.
func checkFolder(dir string) error {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir):
			continue
		case err != nil:
			return fmt.Errorf("store.file.dir: %w", err)
		case !info.IsDir():
			return fmt.Errorf("store.file.dir: %s is no folder", dir)
		}
		return nil
	}
}

// checkOffload adds what offload refuses.
func checkOffload(cfg config.Config) error {
	problems := []error{ownsTier(cfg)}
	if len(cfg.Offload.LogDirs) == 0 {
		problems = append(problems, errors.New("offload.log_dirs: is required"))
	}
	for _, dir := range cfg.Offload.LogDirs {
		if info, err := os.Stat(dir); err != nil {
			problems = append(problems, fmt.Errorf("offload.log_dirs: %w", err))
		} else if !info.IsDir() {
			problems = append(problems, fmt.Errorf("offload.log_dirs: %s is no directory", dir))
		}
	}
	return errors.Join(problems...)
}

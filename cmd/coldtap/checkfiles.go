package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"coldtap/cluster"
	"coldtap/internal/config"
	"coldtap/rangeio"
)

// checkFiles reports every problem with the files that a configuration names for what it turns on: keys, certificates and
// secrets. Nothing is connected to.
func checkFiles(cfg config.Config) error {
	var problems []error
	add := func(key string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", key, err))
		}
	}
	if cfg.Layout.Kind == "aiven" {
		_, err := openAiven(cfg, rangeio.NewClient(rangeio.OpenFileLater(os.DevNull), rangeio.Config{}), 0, nil)
		if err != nil {
			problems = append(problems, err)
		}
	}
	if cfg.Metadata.Kind == "kafka" {
		add("metadata.kafka.tls", cluster.TLSOptions(cfg.Metadata.Kafka.TLS).Check())
		add("metadata.kafka.sasl", saslOptions(cfg.Metadata.Kafka.SASL).Check())
	}
	switch a := cfg.Store.Azure; cfg.Store.Kind {
	case "azure":
		for key, file := range map[string]string{
			"account_key_file": a.AccountKeyFile, "connection_string_file": a.ConnectionStringFile, "sas_file": a.SASFile,
		} {
			_, err := secret("", file)
			add("store.azure."+key, err)
		}
	case "gcs":
		backend, err := openStore(context.Background(), cfg, false)
		add("store.gcs", err)
		if err == nil {
			add("store.gcs", backend.Close())
		}
	}
	return errors.Join(problems...)
}

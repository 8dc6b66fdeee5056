package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/catalog"
	"coldtap/internal/config"
	"coldtap/tier"
)

// waiting is a catalog that gets ready at a moment, and is in trouble from another one on.
type waiting struct {
	readyAt, troubleAt time.Time
}

func (w waiting) Ready() error {
	if !time.Now().Before(w.readyAt) {
		return nil
	}
	return &catalog.Error{Kind: catalog.NotReady, Op: "read", Err: errors.New("not all is read")}
}

func (w waiting) Trouble() error {
	if time.Now().Before(w.troubleAt) {
		return nil
	}
	return errors.New("brokers away")
}

func (waiting) Snapshot() *tier.Snapshot                        { return nil }
func (waiting) Refresh(context.Context, tier.PartitionID) error { return nil }
func (waiting) ClusterID() string                               { return "" }
func (waiting) Status() string                                  { return "" }
func (waiting) Close() error                                    { return nil }

func TestWhoLooksWaitsForWhatGoesOn(t *testing.T) {
	cfg := config.Default()
	cfg.Metadata.Kind = "kafka"
	for _, c := range []struct {
		name           string
		ready, trouble time.Duration
		fails          bool
		least, most    time.Duration
	}{
		{"at once", 0, time.Hour, false, 0, 0},
		{"a long replay", 10 * time.Minute, time.Hour, false, 10 * time.Minute, 11 * time.Minute},
		{"a short outage", 10 * time.Second, 0, false, 10 * time.Second, 11 * time.Second},
		{"brokers that stay away", time.Hour, time.Minute, true, time.Minute + troubleLimit, time.Minute + 2*troubleLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := waitComplete(t.Context(), cfg, waiting{start.Add(c.ready), start.Add(c.trouble)})
				if took := time.Since(start); (err != nil) != c.fails || took < c.least || took > c.most {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

func TestCheckNamesEveryMissingFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coldtap.yaml")
	if err := os.WriteFile(file, []byte(`
store: {kind: azure, azure: {account: abc, container: tier, sas_file: nowhere.sas}}
layout: {kind: aiven, aiven: {encryption_keys: [{id: k1, private_key_file: nowhere.pem}]}}
metadata: {kind: kafka, kafka: {bootstrap: ["b:9092"], tls: {ca_file: nowhere.ca}, sasl: {mechanism: PLAIN, username: u, password_file: nowhere.pw}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, said := commandLine(t, "serve", "--check", "--config", file)
	if code != exitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"azure.sas_file", "nowhere.pem", "nowhere.ca", "nowhere.pw"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s is not in: %s", want, said)
		}
	}
}

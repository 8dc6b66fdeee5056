package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"coldtap/catalog/kafka"
	"coldtap/cluster"
	"coldtap/fetch"
	"coldtap/internal/config"

	"github.com/prometheus/client_golang/prometheus"
)

// brokers is how the configured cluster is reached.
func brokers(cfg config.KafkaMetadata, log *slog.Logger, registerer prometheus.Registerer) (cluster.Config, error) {
	tls, err := cluster.TLSOptions(cfg.TLS).Config()
	if err != nil {
		return cluster.Config{}, fmt.Errorf("metadata.kafka.tls: %w", err)
	}
	mechanism, err := saslOptions(cfg.SASL).Mechanism()
	if err != nil {
		return cluster.Config{}, fmt.Errorf("metadata.kafka.sasl: %w", err)
	}
	return cluster.Config{
		Bootstrap: cfg.Bootstrap, TLS: tls, SASL: mechanism, Interval: time.Duration(cfg.Refresh), Logger: log, Registerer: registerer,
	}, nil
}

func saslOptions(s config.SASL) cluster.SASLOptions {
	return cluster.SASLOptions{
		Name: s.Mechanism, Username: s.Username, Password: s.Password, PasswordFile: s.PasswordFile, Token: s.Token, TokenFile: s.TokenFile,
	}
}

// live is the metadata of a running cluster: its metadata topic, and what its brokers tell of the partitions.
type live struct {
	*kafka.Follower
	cluster *cluster.Client
	stale   time.Duration // the age from which on a view is worth a word in /ready
}

// A view counts as stale after staleRounds rounds of asking the brokers that did not come, and not before leastStale.
const (
	staleRounds = 10
	leastStale  = 10 * time.Second
)

var _ fetch.Live = (*live)(nil)

func openKafkaMetadata(ctx context.Context, cfg config.Config, o metadataOptions) (metadata, error) {
	reach, err := brokers(cfg.Metadata.Kafka, o.log, o.registerer)
	if err != nil {
		return nil, err
	}
	// The cluster tells from the first moment on, the follower listens once it is there.
	var follower atomic.Pointer[kafka.Follower]
	m := &live{stale: staleRounds * time.Duration(cfg.Metadata.Kafka.Refresh)}
	m.cluster, err = cluster.Open(reach, func(v *cluster.View) {
		if f := follower.Load(); f != nil {
			f.Observe(v)
		}
	})
	if err != nil {
		return nil, err
	}
	m.Follower, err = kafka.Open(ctx, kafka.Options{
		Brokers: m.cluster.Brokers(), Cluster: m.cluster, Topic: cfg.Metadata.Kafka.Topic, Snapshot: cfg.Metadata.Kafka.Snapshot,
		Refresh: time.Duration(cfg.Metadata.Kafka.Refresh), Logger: o.log, Registerer: o.registerer, OnDelete: o.onDelete,
	})
	if err != nil {
		m.cluster.Close()
		return nil, err
	}
	follower.Store(m.Follower)
	m.Observe(m.cluster.View())
	return m, nil
}

// Status tells since when the cluster has not been heard of and why, and which topics it does not let us describe.
func (m *live) Status() string {
	s := m.Follower.Status()
	oldest, what := s.AsOf, "metadata topic"
	if s.ClusterAt.Before(oldest) {
		oldest, what = s.ClusterAt, "bounds"
	}
	var text []string
	// Before the first time nothing is ready, and Ready says why.
	if age := time.Since(oldest); !oldest.IsZero() && age >= max(m.stale, leastStale) {
		stale := fmt.Sprintf("metadata as of %s ago (%s)", age.Round(time.Second), what)
		if err := m.Trouble(); err != nil {
			stale += ": " + err.Error()
		}
		text = append(text, stale)
	}
	if s.DeniedTopics > 0 {
		text = append(text, fmt.Sprintf("DESCRIBE denied on %d topics, which are not served: %s", s.DeniedTopics, strings.Join(s.Denied, ", ")))
	}
	return strings.Join(text, "; ")
}

// Trouble joins what the follower and the cluster's client last failed with.
func (m *live) Trouble() error {
	return errors.Join(m.Follower.Status().Trouble, m.cluster.LastError())
}

func (m *live) Close() error {
	err := m.Follower.Close()
	m.cluster.Close()
	return err
}

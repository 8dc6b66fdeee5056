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

// clusterConfig is how the configured cluster is reached.
func clusterConfig(cfg config.KafkaMetadata, log *slog.Logger, registerer prometheus.Registerer) (cluster.Config, error) {
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

// kafkaMetadata comes from a running cluster: its metadata topic, and its brokers' answers about the partitions.
type kafkaMetadata struct {
	*kafka.Follower
	cluster *cluster.Client
	stale   time.Duration // /ready reports a view from this age on
}

// A view counts as stale when staleRounds rounds of asking the brokers were due since, and not before leastStale.
const (
	staleRounds = 10
	leastStale  = 10 * time.Second
)

var _ fetch.Live = (*kafkaMetadata)(nil)

func openKafkaMetadata(ctx context.Context, cfg config.Config, o metadataOptions) (metadata, error) {
	reach, err := clusterConfig(cfg.Metadata.Kafka, o.log, o.registerer)
	if err != nil {
		return nil, err
	}
	// The cluster's first views come before the follower exists; it is given the newest one below.
	var follower atomic.Pointer[kafka.Follower]
	m := &kafkaMetadata{stale: staleRounds * time.Duration(cfg.Metadata.Kafka.Refresh)}
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

// Status says since when the cluster has not answered and why, and which topics it does not let coldtap describe.
func (m *kafkaMetadata) Status() string {
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
func (m *kafkaMetadata) Trouble() error {
	return errors.Join(m.Follower.Status().Trouble, m.cluster.LastError())
}

func (m *kafkaMetadata) Close() error {
	err := m.Follower.Close()
	m.cluster.Close()
	return err
}

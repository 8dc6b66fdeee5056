package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// validateWriter checks that metadata and layout go together: who writes the metadata also writes the objects.
func (c *Config) validateWriter(bad func(key, format string, args ...any)) {
	writes := map[string][]string{"embedded": {"native"}, "kafka": {"aiven", "local"}, "archive": {"native", "aiven"}}
	why := map[string]string{
		"embedded": "the embedded metadata is written by coldtap's offloader, and so are its objects",
		"kafka":    "the segments in a cluster's own metadata are written by its brokers' storage plugin",
		"archive":  "a bucket alone can only be read where manifests tell of its segments",
	}
	if kinds, ok := writes[c.Metadata.Kind]; ok && !slices.Contains(kinds, c.Layout.Kind) {
		bad("layout.kind", "%s does not go with metadata.kind %s, only %s: %s", c.Layout.Kind, c.Metadata.Kind, strings.Join(kinds, " or "), why[c.Metadata.Kind])
	}
}

// validateMetadata checks where metadata and layout come from.
func (c *Config) validateMetadata(bad func(key, format string, args ...any)) {
	if len(c.Layout.Aiven.KeyPrefixes) > 0 && c.Layout.Aiven.KeyPrefix != "" {
		bad("layout.aiven.key_prefix", "goes without key_prefixes; make it the first of them")
	}
	if n := len(c.Layout.Aiven.KeyPrefixes); n > mostKeyPrefixes {
		bad("layout.aiven.key_prefixes", "%d prefixes, at most %d are allowed: each may cost a request for each segment", n, mostKeyPrefixes)
	}
	for i, k := range c.Layout.Aiven.EncryptionKeys {
		if k.ID == "" || k.PrivateKeyFile == "" {
			bad("layout.aiven.encryption_keys", "entry %d needs id and private_key_file", i+1)
		}
	}
	switch c.Metadata.Kind {
	case "embedded":
		if c.Metadata.Embedded.Path == "" {
			bad("metadata.embedded.path", "is required")
		}
	case "kafka":
		c.Metadata.Kafka.validate(bad)
	}
}

// mostKeyPrefixes is also the layout's own limit.
const mostKeyPrefixes = 16

func (k *KafkaMetadata) validate(bad func(key, format string, args ...any)) {
	if len(k.Bootstrap) == 0 {
		bad("metadata.kafka.bootstrap", "is required: host:port of at least one broker")
	}
	for _, addr := range k.Bootstrap {
		host, port, err := net.SplitHostPort(addr)
		if n, perr := strconv.Atoi(port); err != nil || host == "" || perr != nil || n < 1 || n > 65535 {
			bad("metadata.kafka.bootstrap", "%q is not host:port", addr)
		}
	}
	if k.Topic == "" {
		bad("metadata.kafka.topic", "is required")
	}
	if (k.TLS.CertFile == "") != (k.TLS.KeyFile == "") {
		bad("metadata.kafka.tls", "cert_file and key_file go together")
	}
	s := &k.SASL
	switch s.Mechanism {
	case "":
		if *s != (SASL{}) {
			bad("metadata.kafka.sasl.mechanism", "is required: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
		}
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		if s.Username == "" {
			bad("metadata.kafka.sasl.username", "is required for %s", s.Mechanism)
		}
		if (s.Password == "") == (s.PasswordFile == "") {
			bad("metadata.kafka.sasl", "%s takes either password or password_file", s.Mechanism)
		}
		if s.Token != "" || s.TokenFile != "" {
			bad("metadata.kafka.sasl.token", "is for OAUTHBEARER, not for %s", s.Mechanism)
		}
	case "OAUTHBEARER":
		if (s.Token == "") == (s.TokenFile == "") {
			bad("metadata.kafka.sasl", "OAUTHBEARER takes either token or token_file")
		}
		if s.Username != "" || s.Password != "" || s.PasswordFile != "" {
			bad("metadata.kafka.sasl.username", "is not for OAUTHBEARER, which takes a token only")
		}
	}
}

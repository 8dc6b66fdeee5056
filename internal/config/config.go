// Package config is coldtap's configuration: one tree with a default for everything, read from a strict YAML file.
//
// Unknown keys are problems with their line and column, ${NAME} takes a value from the environment, and Validate
// reports every problem at once. Nothing here opens a file or a connection besides the configuration file itself;
// rooms are given the numbers they need, never the tree.
package config

import (
	"math"
	"runtime/debug"
	"time"
)

// Config is the whole tree. Default gives every value that a file may leave out.
type Config struct {
	Listen string `yaml:"listen"` // HTTP data plane, host:port
	Admin  string `yaml:"admin"`  // /metrics, /healthy, /ready, /debug/pprof
	// Hosts are the names, besides localhost and IP literals, that listeners on a loopback address answer to.
	Hosts    []string `yaml:"hosts"`
	Kafka    Kafka    `yaml:"kafka"`
	Store    Store    `yaml:"store"`
	Layout   Layout   `yaml:"layout"`
	Metadata Metadata `yaml:"metadata"`
	Cache    Cache    `yaml:"cache"`
	Reader   Reader   `yaml:"reader"`
	Limits   Limits   `yaml:"limits"`
	Offload  Offload  `yaml:"offload"`
}

// Kafka is the Kafka protocol listener; not built yet, so Listen must stay empty.
type Kafka struct {
	Listen          string `yaml:"listen"`
	AdvertisedHost  string `yaml:"advertised_host"`
	FirstBrokerPort int    `yaml:"first_broker_port"`
}

// Store is where the objects are.
type Store struct {
	Kind  string     `yaml:"kind"` // s3 | gcs | azure | file
	S3    S3Store    `yaml:"s3"`
	GCS   GCSStore   `yaml:"gcs"`
	Azure AzureStore `yaml:"azure"`
	File  FileStore  `yaml:"file"`
	// Price is what requests and transfer cost, for explain; 0 = unknown.
	Price Price `yaml:"price"`
}

// Price is in any one currency.
type Price struct {
	Per1000Gets float64 `yaml:"per_1000_gets"`
	PerGiB      float64 `yaml:"per_gib"`
}

// S3Store is a bucket of S3 or of anything that speaks its protocol. Credentials come from the SDK's default chain.
type S3Store struct {
	Bucket    string `yaml:"bucket"`
	Region    string `yaml:"region"`
	Endpoint  string `yaml:"endpoint"` // URL; empty = AWS
	PathStyle bool   `yaml:"path_style"`
	Prefix    string `yaml:"prefix"` // put in front of every key, byte for byte
	// Checksums is when_supported (the SDK's default) or when_required, for stores that refuse CRC trailers.
	Checksums string `yaml:"checksums"`
}

// GCSStore is a bucket of Google Cloud Storage.
type GCSStore struct {
	Bucket          string `yaml:"bucket"`
	Prefix          string `yaml:"prefix"`           // put in front of every key, byte for byte
	Endpoint        string `yaml:"endpoint"`         // URL; empty = Google's
	CredentialsFile string `yaml:"credentials_file"` // a service account's key; empty = application default credentials
	Anonymous       bool   `yaml:"anonymous"`        // no credentials: a public bucket, or an emulator
}

// AzureStore is a container of Azure Blob Storage. At most one of account key, connection string and shared access signature
// is given, as a value (${NAME} takes it from the environment) or as a file; none is Azure's default chain.
type AzureStore struct {
	Account              string `yaml:"account"`
	Endpoint             string `yaml:"endpoint"` // URL of the account's blob service; empty = Azure's public cloud
	Container            string `yaml:"container"`
	Prefix               string `yaml:"prefix"` // put in front of every key, byte for byte
	AccountKey           string `yaml:"account_key"`
	AccountKeyFile       string `yaml:"account_key_file"`
	ConnectionString     string `yaml:"connection_string"`
	ConnectionStringFile string `yaml:"connection_string_file"`
	SAS                  string `yaml:"sas"`
	SASFile              string `yaml:"sas_file"`
}

// FileStore is a folder that stands for a bucket.
type FileStore struct {
	Dir string `yaml:"dir"`
}

// Layout says how segments lie in the store.
type Layout struct {
	Kind  string      `yaml:"kind"` // native | aiven | local
	Aiven AivenLayout `yaml:"aiven"`
}

// AivenLayout is how the brokers' plugin is configured (Aiven's tiered-storage-for-apache-kafka).
type AivenLayout struct {
	KeyPrefix string `yaml:"key_prefix"` // its key.prefix, byte for byte
	// KeyPrefixes are, in place of KeyPrefix, the values that its key.prefix has and had, the present one first.
	KeyPrefixes []string `yaml:"key_prefixes"`
	// PrefixMasking is its key.prefix.mask, which changes what brokers log and no key: accepted, and without effect.
	PrefixMasking  bool            `yaml:"prefix_masking"`
	EncryptionKeys []EncryptionKey `yaml:"encryption_keys"` // its encryption.key.pairs, private halves; old ones too
}

// Prefixes are the values of the plugin's key.prefix to look under, never none.
func (a *AivenLayout) Prefixes() []string {
	if len(a.KeyPrefixes) > 0 {
		return a.KeyPrefixes
	}
	return []string{a.KeyPrefix}
}

// EncryptionKey names a private key file by the id that manifests use.
type EncryptionKey struct {
	ID             string `yaml:"id"`
	PrivateKeyFile string `yaml:"private_key_file"`
}

// Metadata says where a tier's metadata lives.
type Metadata struct {
	Kind     string        `yaml:"kind"` // embedded | kafka | archive
	Embedded Embedded      `yaml:"embedded"`
	Kafka    KafkaMetadata `yaml:"kafka"`
	Archive  Archive       `yaml:"archive"`
}

// KafkaMetadata is a live cluster whose brokers tier segments themselves.
type KafkaMetadata struct {
	Bootstrap []string `yaml:"bootstrap"` // host:port of some brokers
	Topic     string   `yaml:"topic"`     // of KIP-405's topic-based metadata manager
	Snapshot  string   `yaml:"snapshot"`  // file that saves a restart from reading the topic again; "" = none
	Refresh   Duration `yaml:"refresh"`   // how often brokers are asked for bounds, and how old an answer about what lies beyond the tier may be
	TLS       TLS      `yaml:"tls"`
	SASL      SASL     `yaml:"sasl"`
}

// TLS is how to speak to brokers; all empty is plaintext.
type TLS struct {
	Enabled            bool   `yaml:"enabled"`   // with the system's certificate authorities; any other key turns it on too
	CAFile             string `yaml:"ca_file"`   // PEM; in place of the system's
	CertFile           string `yaml:"cert_file"` // PEM, for mutual TLS
	KeyFile            string `yaml:"key_file"`
	ServerName         string `yaml:"server_name"` // expected in the brokers' certificates, in place of their host names
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
}

// On says whether connections are encrypted.
func (t TLS) On() bool { return t != TLS{} }

// SASL is how to authenticate to brokers; no mechanism is none.
type SASL struct {
	Mechanism    string `yaml:"mechanism"` // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER
	Username     string `yaml:"username"`
	Password     string `yaml:"password"`
	PasswordFile string `yaml:"password_file"` // read at each authentication
	Token        string `yaml:"token"`
	TokenFile    string `yaml:"token_file"` // read at each authentication
}

// Archive reads a bucket alone: its manifests are the metadata.
type Archive struct {
	Snapshot string   `yaml:"snapshot"` // file that saves reading manifests again; "" = none
	Refresh  Duration `yaml:"refresh"`  // how often the bucket is listed again; 0 = at start and on demand
	// ClusterID is the cluster to serve where a bucket holds several of the native layout; "" = the only one.
	ClusterID string `yaml:"cluster_id"`
}

// Embedded is an SQLite file: one writer (offload), any number of readers.
type Embedded struct {
	Path string `yaml:"path"`
}

// Cache bounds memory.
type Cache struct {
	Memory      Bytes `yaml:"memory"` // chunk arena; auto = 60 % of the container's limit
	Chunk       Bytes `yaml:"chunk"`
	IndexMemory Bytes `yaml:"index_memory"`
	Disk        Disk  `yaml:"disk"`
}

// Disk is the SSD tier of the chunk cache; not built yet, so Path must stay empty.
type Disk struct {
	Path string `yaml:"path"`
	Size Bytes  `yaml:"size"`
}

// Reader bounds reads of the store.
type Reader struct {
	Threads      int      `yaml:"threads"`     // at a time
	MaxPending   int      `yaml:"max_pending"` // waiting
	ReadAhead    Bytes    `yaml:"read_ahead"`  // per session, upper bound
	QueueTimeout Duration `yaml:"queue_timeout"`
}

// Limits bounds what clients can ask of the process.
type Limits struct {
	MaxResponseBytes   Bytes    `yaml:"max_response_bytes"`
	DecodeMemory       Bytes    `yaml:"decode_memory"`         // decompression, and JSON bodies until they are written
	StoreGetsPerSecond int      `yaml:"store_gets_per_second"` // not built yet: must stay 0
	BytesPerSecond     Bytes    `yaml:"bytes_per_second"`      // not built yet: must stay 0
	StallTimeout       Duration `yaml:"stall_timeout"`         // a client that takes nothing for so long is cut off
}

// Offload is read by the offloader only.
type Offload struct {
	LogDirs []string    `yaml:"log_dirs"`
	Topics  TopicFilter `yaml:"topics"`
	// Retention is the tier's own; not built yet: nothing is ever deleted, and times and sizes must stay 0.
	Retention []Retention `yaml:"retention"`
	Rate      Bytes       `yaml:"rate"`     // bytes a second; 0 = unlimited
	Interval  Duration    `yaml:"interval"` // between rounds; unused while offload runs once
}

// Retention keeps the newest data of some topics. 0 = for ever.
type Retention struct {
	Topics string   `yaml:"topics"` // glob
	Time   Duration `yaml:"time"`
	Bytes  Bytes    `yaml:"bytes"`
}

// TopicFilter selects topics by globs; a topic is taken when an include matches and no exclude does.
type TopicFilter struct {
	Include []string `yaml:"include"`
	Exclude []string `yaml:"exclude"`
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Admin:  "127.0.0.1:9090",
		Hosts:  []string{},
		Store: Store{
			Kind: "s3",
			S3:   S3Store{Region: "us-east-1", Checksums: "when_supported"},
			File: FileStore{Dir: "./data/objects"},
		},
		Layout: Layout{Kind: "native"},
		Metadata: Metadata{
			Kind:     "embedded",
			Embedded: Embedded{Path: "./data/coldtap.db"},
			Kafka:    KafkaMetadata{Topic: "__remote_log_metadata", Snapshot: "./data/metadata.snapshot", Refresh: Duration(time.Second)},
			Archive:  Archive{Snapshot: "./data/archive.snapshot"},
		},
		Cache: Cache{Memory: 1 << 30, Chunk: 4 << 20, IndexMemory: 128 << 20},
		Reader: Reader{
			Threads: 32, MaxPending: 256, ReadAhead: 128 << 20, QueueTimeout: Duration(10 * time.Second),
		},
		Limits: Limits{
			MaxResponseBytes: 256 << 20, DecodeMemory: 256 << 20, StallTimeout: Duration(30 * time.Second),
		},
		Offload: Offload{
			LogDirs:   []string{"/var/lib/kafka"},
			Topics:    TopicFilter{Include: []string{"*"}, Exclude: []string{"__*"}},
			Retention: []Retention{{Topics: "*"}},
			Interval:  Duration(30 * time.Second),
		},
	}
}

// headroom is what the process may use above its configured bound: goroutine stacks, connection buffers, the garbage
// that the collector has not reached yet.
const headroom = 192 << 20

// segmentMemory is what a live segment takes of the heap, in bytes.
const segmentMemory = 300

// operatorsLimit is GOMEMLIMIT's, math.MaxInt64 when it is not set.
var operatorsLimit = debug.SetMemoryLimit(-1)

// SetMemoryLimit gives the Go runtime a soft limit for the heap, so that garbage does not double what decoding, indexes and
// the metadata of so many live segments hold. The chunk arena is mapped outside the Go heap and does not count. GOMEMLIMIT,
// when set by the operator, wins.
func (c *Config) SetMemoryLimit(segments int) {
	if operatorsLimit == math.MaxInt64 {
		debug.SetMemoryLimit(int64(c.Cache.IndexMemory+c.Limits.DecodeMemory) + segmentMemory*int64(segments) + headroom)
	}
}

// Package config is coldtap's configuration: one tree with a default for everything, read from a strict YAML file and
// from the environment.
//
// A key is described once, by the tags of its field (see key). What is known of it comes from there: which keys and
// values are accepted, what Print masks, the commented example file and docs/configuration.md. To add a key, add a
// field with its doc tag and, where it is not zero, its value in Default; what no tag can say goes into Validate. Then
// run the tests with UPDATE_GOLDEN=1.
//
// Unknown keys are problems with their line and column, ${NAME} takes a value from the environment, variables such as
// COLDTAP__STORE__S3__BUCKET replace what the file says, and every problem is reported at once. Nothing here opens a
// file or a connection besides the configuration file itself; rooms are given the numbers they need, never the tree.
package config

import "time"

// Config is the whole tree. Default gives every value that may be left out. The tags of a field are all that there is
// to say about its key, see key.
type Config struct {
	Listen   string   `yaml:"listen" doc:"Address of the HTTP data plane, host:port. Beyond loopback only with auth.allow_anonymous."`
	Admin    string   `yaml:"admin" doc:"Address of /metrics, /healthy, /ready and /debug/pprof, host:port. Beyond loopback only with auth.allow_anonymous."`
	Hosts    []string `yaml:"hosts" doc:"Names, besides localhost and IP literals, that listeners on a loopback address answer to."`
	Auth     Auth     `yaml:"auth" doc:"Who may read."`
	Store    Store    `yaml:"store" doc:"Where the objects are."`
	Layout   Layout   `yaml:"layout" doc:"How segments lie in the store."`
	Metadata Metadata `yaml:"metadata" doc:"Where the tier's metadata lives."`
	Cache    Cache    `yaml:"cache" doc:"Memory for what was read."`
	Reader   Reader   `yaml:"reader" doc:"Reads of the store."`
	Limits   Limits   `yaml:"limits" doc:"What clients can ask of the process."`
	Offload  Offload  `yaml:"offload" doc:"For coldtap offload only; layout.kind must be native."`
}

// Auth says who may read.
type Auth struct {
	AllowAnonymous bool `yaml:"allow_anonymous" doc:"Lets listeners on addresses beyond loopback start, although whoever reaches them can read everything."`
}

// Store is where the objects are.
type Store struct {
	Kind  string     `yaml:"kind" oneof:"s3 gcs azure file" example:"s3" doc:"Which of the stores below is used."`
	S3    S3Store    `yaml:"s3" doc:"A bucket of S3 or of what speaks its protocol. Credentials come from the SDK's default chain: environment, shared files, roles."`
	GCS   GCSStore   `yaml:"gcs" doc:"A bucket of Google Cloud Storage."`
	Azure AzureStore `yaml:"azure" doc:"A container of Azure Blob Storage. At most one of account key, connection string and shared access signature is given, as a value or as a file; none is Azure's default chain."`
	File  FileStore  `yaml:"file" doc:"A folder that stands for a bucket."`
	Price Price      `yaml:"price" doc:"What requests and transfer cost in any one currency, for explain; 0 = unknown."`
}

// Price is in any one currency.
type Price struct {
	Per1000Gets float64 `yaml:"per_1000_gets" min:"0" doc:"Price of 1,000 GETs."`
	PerGiB      float64 `yaml:"per_gib" min:"0" doc:"Price of a GiB that leaves the store."`
}

// S3Store is a bucket of S3 or of anything that speaks its protocol.
type S3Store struct {
	Bucket    string `yaml:"bucket" example:"tier" doc:"The bucket's name; required."`
	Region    string `yaml:"region" doc:"The bucket's region; any value does for most S3-compatible stores."`
	Endpoint  string `yaml:"endpoint" doc:"URL of the store; empty = AWS."`
	PathStyle bool   `yaml:"path_style" doc:"Put the bucket into the path instead of into the host name."`
	Prefix    string `yaml:"prefix" doc:"Put in front of every key, byte for byte."`
	Checksums string `yaml:"checksums" oneof:"when_supported when_required" doc:"when_required for stores that refuse CRC trailers."`
}

// GCSStore is a bucket of Google Cloud Storage.
type GCSStore struct {
	Bucket          string `yaml:"bucket" doc:"The bucket's name; required."`
	Prefix          string `yaml:"prefix" doc:"Put in front of every key, byte for byte."`
	Endpoint        string `yaml:"endpoint" doc:"URL of the store; empty = Google's."`
	CredentialsFile string `yaml:"credentials_file" doc:"A service account's key; empty = application default credentials."`
	Anonymous       bool   `yaml:"anonymous" doc:"Use no credentials: a public bucket, or an emulator."`
}

// AzureStore is a container of Azure Blob Storage.
type AzureStore struct {
	Account              string `yaml:"account" doc:"The storage account's name."`
	Endpoint             string `yaml:"endpoint" doc:"URL of the account's blob service; empty = Azure's public cloud."`
	Container            string `yaml:"container" doc:"The container's name; required."`
	Prefix               string `yaml:"prefix" doc:"Put in front of every key, byte for byte."`
	AccountKey           string `yaml:"account_key" secret:"true" doc:"The account's key."`
	AccountKeyFile       string `yaml:"account_key_file" doc:"File with the account's key."`
	ConnectionString     string `yaml:"connection_string" secret:"true" doc:"A connection string, which names account and endpoint."`
	ConnectionStringFile string `yaml:"connection_string_file" doc:"File with a connection string."`
	SAS                  string `yaml:"sas" secret:"true" doc:"A shared access signature."`
	SASFile              string `yaml:"sas_file" doc:"File with a shared access signature."`
}

// FileStore is a folder that stands for a bucket.
type FileStore struct {
	Dir string `yaml:"dir" doc:"The folder."`
}

// Layout says how segments lie in the store.
type Layout struct {
	Kind  string      `yaml:"kind" oneof:"native aiven local" doc:"native is what coldtap offload writes, aiven what Aiven's tiered-storage plugin writes, local Kafka's LocalTieredStorage."`
	Aiven AivenLayout `yaml:"aiven" doc:"How the brokers' plugin is configured (Aiven's tiered-storage-for-apache-kafka)."`
}

// AivenLayout is how the brokers' plugin is configured (Aiven's tiered-storage-for-apache-kafka).
type AivenLayout struct {
	KeyPrefix         string          `yaml:"key_prefix" doc:"Its key.prefix, byte for byte."`
	KeyPrefixes       []string        `yaml:"key_prefixes" doc:"In place of key_prefix, the values that its key.prefix has and had, the present one first; at most 16."`
	PrefixMasking     bool            `yaml:"prefix_masking" doc:"Its key.prefix.mask, which changes what brokers log and no key: accepted, and without effect."`
	EncryptionKeys    []EncryptionKey `yaml:"encryption_keys" doc:"Its encryption.key.pairs, private halves, old ones too: a list of {id: key1, private_key_file: key1.pem}. The files are read again when a segment names a key that is not at hand."`
	EncryptionKeysDir string          `yaml:"encryption_keys_dir" doc:"Folder of further private keys, each in a file that has the key's id for its name and ends in .pem. New ones are found without a restart."`
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
	ID             string `yaml:"id" doc:"The id that manifests use."`
	PrivateKeyFile string `yaml:"private_key_file" doc:"PEM file of the private key."`
}

// Metadata says where a tier's metadata lives.
type Metadata struct {
	Kind     string        `yaml:"kind" oneof:"embedded kafka archive" doc:"Which of those below is used."`
	Embedded Embedded      `yaml:"embedded" doc:"The database of coldtap's own offloader, an SQLite file: one writer (offload), any number of readers."`
	Kafka    KafkaMetadata `yaml:"kafka" doc:"A live cluster whose brokers tier segments themselves."`
	Archive  Archive       `yaml:"archive" doc:"A bucket alone: its manifests are the metadata."`
}

// KafkaMetadata is a live cluster whose brokers tier segments themselves.
type KafkaMetadata struct {
	Bootstrap []string `yaml:"bootstrap" doc:"host:port of some brokers; required."`
	Topic     string   `yaml:"topic" doc:"Topic of KIP-405's topic-based metadata manager."`
	Snapshot  string   `yaml:"snapshot" doc:"File that saves a restart from reading the topic again; empty = none."`
	Refresh   Duration `yaml:"refresh" min:"100ms" max:"1m" doc:"How often brokers are asked for bounds, and how old an answer about what lies beyond the tier may be."`
	TLS       TLS      `yaml:"tls" doc:"How to speak to brokers; all empty is plaintext."`
	SASL      SASL     `yaml:"sasl" doc:"How to authenticate to brokers."`
}

// TLS is how to speak to brokers; all empty is plaintext.
type TLS struct {
	Enabled            bool   `yaml:"enabled" doc:"Encrypt, with the system's certificate authorities; any other key turns it on too."`
	CAFile             string `yaml:"ca_file" doc:"PEM file of certificate authorities, in place of the system's."`
	CertFile           string `yaml:"cert_file" doc:"PEM file of a certificate, for mutual TLS."`
	KeyFile            string `yaml:"key_file" doc:"PEM file of its private key."`
	ServerName         string `yaml:"server_name" doc:"Expected in the brokers' certificates, in place of their host names."`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" doc:"Accept any certificate."`
}

// On says whether connections are encrypted.
func (t TLS) On() bool { return t != TLS{} }

// SASL is how to authenticate to brokers; no mechanism is none.
type SASL struct {
	Mechanism    string `yaml:"mechanism" oneof:"'' PLAIN SCRAM-SHA-256 SCRAM-SHA-512 OAUTHBEARER" doc:"How to authenticate; '' = not at all."`
	Username     string `yaml:"username" doc:"Name of the user, for PLAIN and SCRAM."`
	Password     string `yaml:"password" secret:"true" doc:"Password of the user, for PLAIN and SCRAM."`
	PasswordFile string `yaml:"password_file" doc:"File with the password, read at each authentication."`
	Token        string `yaml:"token" secret:"true" doc:"Token for OAUTHBEARER."`
	TokenFile    string `yaml:"token_file" doc:"File with the token, read at each authentication."`
}

// Archive reads a bucket alone: its manifests are the metadata.
type Archive struct {
	Snapshot  string   `yaml:"snapshot" doc:"File that saves a restart from reading manifests again; empty = none."`
	Refresh   Duration `yaml:"refresh" doc:"How often the bucket is listed again; 0s = at start and on demand."`
	ClusterID string   `yaml:"cluster_id" doc:"The cluster to serve where a bucket holds several of the native layout; empty = the only one."`
}

// Embedded is an SQLite file: one writer (offload), any number of readers.
type Embedded struct {
	Path string `yaml:"path" doc:"The file."`
}

// Cache bounds memory.
type Cache struct {
	Memory      Bytes `yaml:"memory" max:"memory" doc:"Hard bound of the memory for chunks of logs, at least four chunks; auto = 60 % of the container's limit, or of the machine's memory."`
	Chunk       Bytes `yaml:"chunk" min:"4KiB" max:"256MiB" doc:"What is read of a log at a time."`
	IndexMemory Bytes `yaml:"index_memory" min:"64KiB" max:"memory" doc:"Bound of the memory for indexes."`
}

// Reader bounds reads of the store.
type Reader struct {
	Threads      int      `yaml:"threads" min:"1" max:"4096" doc:"Reads of the store at a time."`
	MaxPending   int      `yaml:"max_pending" min:"1" doc:"Reads that may wait; further ones are refused."`
	ReadAhead    Bytes    `yaml:"read_ahead" doc:"Upper bound of what is read ahead for one reader."`
	QueueTimeout Duration `yaml:"queue_timeout" min:"1ms" doc:"How long a read may wait."`
}

// Limits bounds what clients can ask of the process.
type Limits struct {
	MaxResponseBytes Bytes    `yaml:"max_response_bytes" min:"1" doc:"Upper bound of max_bytes for JSON and v2 answers; streams have none. Taken anew at SIGHUP."`
	DecodeMemory     Bytes    `yaml:"decode_memory" min:"1MiB" max:"memory" doc:"Memory for decompression, and for JSON bodies until they are written."`
	StallTimeout     Duration `yaml:"stall_timeout" min:"1s" doc:"A client that takes nothing for so long is cut off. Taken anew at SIGHUP."`
}

// Offload is read by the offloader only.
type Offload struct {
	LogDirs []string    `yaml:"log_dirs" doc:"Log directories of the stopped broker; --log-dir replaces them."`
	Rate    Bytes       `yaml:"rate" doc:"Upper bound of the upload in bytes a second; 0 = unlimited."`
	Topics  TopicFilter `yaml:"topics" doc:"A topic is copied when an include matches and no exclude does."`
}

// TopicFilter selects topics by globs; a topic is taken when an include matches and no exclude does.
type TopicFilter struct {
	Include []string `yaml:"include" doc:"Globs (* and ? and [abc])."`
	Exclude []string `yaml:"exclude" doc:"Globs; Kafka's internal topics are never copied."`
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
			LogDirs: []string{"/var/lib/kafka"},
			Topics:  TopicFilter{Include: []string{"*"}, Exclude: []string{"__*"}},
		},
	}
}

package rangeio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
)

// S3Config says where an S3 store is.
type S3Config struct {
	Bucket, Region, Endpoint, Prefix string // Prefix is put in front of every key, byte for byte; Endpoint "" is AWS
	PathStyle                        bool   // bucket in the path instead of in the host name
	Connections                      int    // reads at a time, default 32; sizes the connection pool

	// Checksums is "when_supported" (default: uploads carry CRC32, in trailers over TLS) or "when_required" for stores
	// that refuse them: older Ceph, MinIO and others. It holds for single and multipart uploads alike.
	Checksums string

	// Credentials replaces the SDK's default chain (environment, shared files, web identity, container and instance
	// roles).
	Credentials aws.CredentialsProvider
}

const (
	defaultConnections = 32

	// uploadPart is the size of a part and the object size from which there are parts. 8 MiB is what S3's own tools use;
	// with uploadParallel parts in flight one Put holds at most (uploadParallel+1) × 8 MiB plus the first part.
	uploadPart     = 8 << 20
	uploadParallel = 4

	// abortTimeout is for clearing away an upload whose context has ended; parts left behind cost money unseen.
	abortTimeout = 10 * time.Second
)

// s3Store is a bucket.
type s3Store struct {
	bucket, prefix string
	pools          pools
	reads          *s3.Client // one attempt each: Client retries, and the SDK's retry quota, once used up, would end all retries
	writes         *s3.Client
	uploads        *transfermanager.Client
	credentials    *credentials
}

// OpenS3 uses the SDK's default credential chain unless cfg has credentials. Nothing is asked of the store yet.
func OpenS3(ctx context.Context, cfg S3Config) (Backend, error) {
	return openS3(ctx, cfg, newPools(cfg.Connections))
}

func openS3(ctx context.Context, cfg S3Config, p pools) (Backend, error) {
	if cfg.Bucket == "" {
		return nil, errors.New("s3: bucket is not set")
	}
	if cfg.Endpoint != "" {
		if u, err := url.Parse(cfg.Endpoint); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("s3: endpoint %q is not an http or https URL", cfg.Endpoint)
		}
	}
	requestChecksums := aws.RequestChecksumCalculationWhenSupported
	switch cfg.Checksums {
	case "", "when_supported":
	case "when_required":
		requestChecksums = aws.RequestChecksumCalculationWhenRequired
	default:
		return nil, fmt.Errorf("s3: checksums %q is neither when_supported nor when_required", cfg.Checksums)
	}
	sdk, err := loadSDK(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	creds := newCredentials(sdk.Credentials)
	sdk.Credentials = creds

	s := &s3Store{bucket: cfg.Bucket, prefix: cfg.Prefix, pools: p, credentials: creds}
	if c, ok := sdk.HTTPClient.(*awshttp.BuildableClient); ok {
		// What the environment says about certificates (AWS_CA_BUNDLE).
		tls := c.GetTransport().TLSClientConfig
		p.reads.TLSClientConfig, p.writes.TLSClientConfig = tls.Clone(), tls.Clone()
	}
	client := func(pool *http.Transport, retryer aws.Retryer) *s3.Client {
		return s3.NewFromConfig(sdk, func(o *s3.Options) {
			if cfg.Endpoint != "" {
				o.BaseEndpoint = aws.String(cfg.Endpoint)
			}
			o.UsePathStyle = cfg.PathStyle
			o.HTTPClient = httpClient(pool)
			o.Retryer = retryer
			o.RequestChecksumCalculation = requestChecksums
			// S3 gives no checksum for most ranges, and some stores give the whole object's, which fails every read; Kafka's
			// batches carry their own.
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
			o.DisableLogOutputChecksumValidationSkipped = true
		})
	}
	s.reads = client(p.reads, aws.NopRetryer{})
	s.writes = client(p.writes, retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 3 // of one part, so that a hiccup does not send the whole object again
		o.MaxBackoff = 2 * time.Second
		o.RateLimiter = ratelimit.None // attempts are bounded here and in Client; a quota shared by all parts would fail the innocent
	}))
	s.uploads = transfermanager.New(s.writes, func(o *transfermanager.Options) {
		o.PartSizeBytes = uploadPart
		o.MultipartUploadThreshold = uploadPart
		o.Concurrency = uploadParallel
		o.FailTimeout = abortTimeout
		o.RequestChecksumCalculation = requestChecksums // the transfer manager does not look at the client's setting
	})
	return s, nil
}

// loadSDK reads the SDK's environment: credentials, region, proxies.
func loadSDK(ctx context.Context, cfg S3Config) (aws.Config, error) {
	opts := []func(*config.LoadOptions) error{
		config.WithLogger(logging.Nop{}),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = tokenClient() }), // it would make one of its own
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.DialContext = boundedDial(t.DialContext) })),
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) {
			// Renewed a little before they end: a request signed in the last second arrives expired.
			o.ExpiryWindow = 10 * time.Second
			o.ExpiryWindowJitterFrac = 0.5
		}),
	}
	if cfg.Region != "" {
		opts = append(opts, config.WithRegion(cfg.Region))
	} else if cfg.Endpoint != "" {
		opts = append(opts, config.WithDefaultRegion("us-east-1"))
	}
	if cfg.Credentials != nil {
		opts = append(opts, config.WithCredentialsProvider(cfg.Credentials))
	}
	sdk, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return aws.Config{}, err
	}
	if sdk.Region == "" {
		return aws.Config{}, errors.New("region is not set")
	}
	return sdk, nil
}

func (s *s3Store) String() string {
	if s.prefix == "" {
		return "s3://" + s.bucket
	}
	return "s3://" + s.bucket + "/" + s.prefix
}

func (s *s3Store) Close() error {
	s.pools.closeIdle()
	return nil
}

// call runs one SDK call and classifies its error. Credentials that the store calls expired are renewed once, and the
// call repeated.
func (s *s3Store) call(ctx context.Context, op, key string, f func() error) *Error {
	return s.pools.call(ctx, op, key, func() error {
		err := f()
		if err != nil && ctx.Err() == nil && isExpiredToken(err) {
			s.credentials.renew()
			err = f()
		}
		return err
	}, func(ctx context.Context, err error) (Kind, error) { return s3Kind(ctx, err), err })
}

package rangeio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// AzureConfig says where a container of Azure Blob Storage is. At most one of AccountKey, ConnectionString and SAS is
// set; without them the default chain of azidentity is asked: environment, workload identity, managed identity, the
// developer's az.
type AzureConfig struct {
	Account           string // of the host name ACCOUNT.blob.core.windows.net, and of AccountKey
	Endpoint          string // URL of the blob service in another cloud, or of an emulator (with the account in its path); "" follows Account
	Container, Prefix string // Prefix is put in front of every key, byte for byte

	AccountKey       string // base64, as the portal shows it
	ConnectionString string // has account, key or SAS, and endpoint in it
	SAS              string // shared access signature, with or without the leading "?"

	Connections int // reads at a time, default 32; sizes the connection pool
}

// Microsoft's rules for names. Checked because both become parts of URLs.
var (
	azureAccountName   = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	azureContainerName = regexp.MustCompile(`^(\$root|\$web|[a-z0-9](-?[a-z0-9]){2,62})$`)
)

// azureStore is a container with block blobs.
type azureStore struct {
	where, prefix string
	pools         pools
	reads         *container.Client
	writes        *container.Client
}

// OpenAzure checks cfg. No request is sent yet, neither to the store nor for a token.
func OpenAzure(_ context.Context, cfg AzureConfig) (Backend, error) {
	if !azureContainerName.MatchString(cfg.Container) {
		return nil, fmt.Errorf("azure: container %q is not set or not a container's name", cfg.Container)
	}
	dial, err := azureDialer(cfg)
	if err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	s := &azureStore{prefix: cfg.Prefix, pools: newPools(cfg.Connections)}
	if s.reads, err = dial(azureOptions(s.pools.reads)); err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	if s.writes, err = dial(azureOptions(s.pools.writes)); err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	u, err := url.Parse(s.reads.URL())
	if err != nil {
		return nil, errors.New("azure: the connection string has no good endpoint") // the cause would quote a SAS
	}
	s.where = u.Host + u.Path
	return s, nil
}

// azureOptions turns the SDK's retries off: of reads because Client counts them, of writes because the SDK rewinds the
// one body that net/http may still be sending when the store refused it early.
func azureOptions(pool *http.Transport) *container.ClientOptions {
	return &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: httpClient(pool),
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Telemetry: policy.TelemetryOptions{ApplicationID: "coldtap"},
	}}
}

// azureDialer chooses the credential. What it gives makes a client of the container.
func azureDialer(cfg AzureConfig) (func(*container.ClientOptions) (*container.Client, error), error) {
	given := 0
	for _, secret := range []string{cfg.AccountKey, cfg.ConnectionString, cfg.SAS} {
		if secret != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, errors.New("account key, connection string and SAS exclude each other")
	case cfg.ConnectionString != "":
		if cfg.Account != "" || cfg.Endpoint != "" {
			return nil, errors.New("the connection string names account and endpoint itself")
		}
		return func(o *container.ClientOptions) (*container.Client, error) {
			return container.NewClientFromConnectionString(cfg.ConnectionString, cfg.Container, o)
		}, nil
	}
	service, err := azureService(cfg)
	if err != nil {
		return nil, err
	}
	at := service + "/" + url.PathEscape(cfg.Container)
	switch {
	case cfg.AccountKey != "":
		if cfg.Account == "" {
			return nil, errors.New("an account key needs its account")
		}
		key, err := container.NewSharedKeyCredential(cfg.Account, cfg.AccountKey)
		if err != nil {
			return nil, errors.New("the account key is not base64") // the cause could quote it
		}
		return func(o *container.ClientOptions) (*container.Client, error) {
			return container.NewClientWithSharedKeyCredential(at, key, o)
		}, nil
	case cfg.SAS != "":
		query, err := url.ParseQuery(strings.TrimPrefix(cfg.SAS, "?"))
		if err != nil || query.Get("sig") == "" {
			return nil, errors.New("the SAS has no signature")
		}
		return func(o *container.ClientOptions) (*container.Client, error) {
			return container.NewClientWithNoCredential(at+"?"+query.Encode(), o)
		}, nil
	}
	if !strings.HasPrefix(service, "https://") {
		return nil, errors.New("tokens of the default credentials are sent over https only")
	}
	chain, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: policy.ClientOptions{Transport: tokenClient()},
	})
	if err != nil {
		return nil, err
	}
	return func(o *container.ClientOptions) (*container.Client, error) {
		return container.NewClient(at, azureTokens{chain}, o)
	}, nil
}

// azureService gives the URL of the account's blob service, without a slash at its end.
func azureService(cfg AzureConfig) (string, error) {
	if cfg.Account != "" && !azureAccountName.MatchString(cfg.Account) {
		return "", fmt.Errorf("account %q is not a storage account's name", cfg.Account)
	}
	if cfg.Endpoint == "" {
		if cfg.Account == "" {
			return "", errors.New("neither account nor endpoint nor connection string is set")
		}
		return "https://" + cfg.Account + ".blob.core.windows.net", nil
	}
	u, err := checkEndpoint(cfg.Endpoint)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// azureTokens marks the failures of a credential, to distinguish them from the store's.
type azureTokens struct{ azcore.TokenCredential }

// GetToken is azcore's interface.
func (t azureTokens) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := t.TokenCredential.GetToken(ctx, o)
	if err != nil {
		return token, credentialsError{err}
	}
	return token, nil
}

func (s *azureStore) String() string { return strings.TrimSuffix("azure://"+s.where+"/"+s.prefix, "/") }

func (s *azureStore) Close() error {
	s.pools.closeIdle()
	return nil
}

// name gives the blob's full name for an operation's key. The service takes a backslash for a slash, and Microsoft
// warns of dots at the end of a part; either could make two keys one blob.
func (s *azureStore) name(op, key string) (string, *Error) {
	name, err := objectName(s.prefix, op, key)
	if err == nil && (strings.Contains(name, `\`) || strings.Contains(name+"/", "./")) {
		err = &Error{Kind: BadKey, Op: op, Key: key, Err: errors.New("key has a backslash, or a part that ends with a dot")}
	}
	return name, err
}

// call runs one request and classifies its error.
func (s *azureStore) call(ctx context.Context, op, key string, f func() error) *Error {
	return s.pools.call(ctx, op, key, f, azureFailure)
}

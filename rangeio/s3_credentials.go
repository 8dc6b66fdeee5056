package rangeio

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// renewPause keeps readers whose requests all failed with "expired" at once from renewing one after the other.
const renewPause = time.Second

// credentials is the SDK's cached provider, with renewal on demand and with failures that differ from the store's.
type credentials struct {
	cache *aws.CredentialsCache

	mu struct {
		sync.Mutex
		renewed time.Time
	}
}

func newCredentials(p aws.CredentialsProvider) *credentials {
	cache, ok := p.(*aws.CredentialsCache)
	if !ok {
		cache = aws.NewCredentialsCache(p)
	}
	return &credentials{cache: cache}
}

// credentialsError says that there are no credentials to sign with.
type credentialsError struct{ err error }

func (e credentialsError) Error() string { return "no credentials: " + e.err.Error() }
func (e credentialsError) Unwrap() error { return e.err }

// Retrieve is the SDK's interface.
func (c *credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	creds, err := c.cache.Retrieve(ctx)
	if err != nil {
		return creds, credentialsError{err}
	}
	return creds, nil
}

// renew makes the next request fetch new credentials, whatever the old ones say of their end.
func (c *credentials) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.mu.renewed) >= renewPause {
		c.mu.renewed = now
		c.cache.Invalidate()
	}
}

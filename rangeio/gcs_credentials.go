package rangeio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	"cloud.google.com/go/auth"
	google "cloud.google.com/go/auth/credentials"
)

// gcsScope allows reading and writing objects, not the settings of buckets.
const gcsScope = "https://www.googleapis.com/auth/devstorage.read_write"

// gcsTokens signs requests with OAuth tokens, which Google's library keeps and renews.
type gcsTokens struct {
	mu struct {
		sync.Mutex
		found *auth.Credentials // nil until the default credentials were found
	}
}

func detectOptions() *google.DetectOptions {
	// No renewal in the background: it would outlive the store.
	return &google.DetectOptions{Scopes: []string{gcsScope}, DisableAsyncRefresh: true}
}

// newGCSTokens gives nil for an anonymous store.
func newGCSTokens(cfg GCSConfig) (*gcsTokens, error) {
	if cfg.Anonymous {
		if cfg.CredentialsFile != "" {
			return nil, errors.New("a credentials file and anonymous exclude each other")
		}
		return nil, nil
	}
	t := &gcsTokens{}
	if cfg.CredentialsFile == "" {
		return t, nil
	}
	content, err := os.ReadFile(cfg.CredentialsFile)
	if err != nil {
		return nil, fmt.Errorf("credentials file: %w", err)
	}
	var kind struct {
		Type google.CredType `json:"type"`
	}
	if err := json.Unmarshal(content, &kind); err != nil {
		return nil, fmt.Errorf("credentials file %s is not JSON", cfg.CredentialsFile) // the cause could quote a key
	}
	if t.mu.found, err = google.NewCredentialsFromJSON(kind.Type, content, detectOptions()); err != nil {
		return nil, fmt.Errorf("credentials file %s: %w", cfg.CredentialsFile, err)
	}
	return t, nil
}

// authorize puts a valid token into h.
func (t *gcsTokens) authorize(ctx context.Context, h http.Header) error {
	creds, err := t.credentials()
	if err != nil {
		return credentialsError{err}
	}
	token, err := creds.Token(ctx)
	if err != nil {
		return credentialsError{err}
	}
	h.Set("Authorization", "Bearer "+token.Value)
	if project, err := creds.QuotaProjectID(ctx); err == nil && project != "" {
		h.Set("X-Goog-User-Project", project)
	}
	return nil
}

func (t *gcsTokens) credentials() (*auth.Credentials, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.found == nil {
		found, err := google.DetectDefault(detectOptions())
		if err != nil {
			return nil, err // tried again with the next request
		}
		t.mu.found = found
	}
	return t.mu.found, nil
}

// gcsCredentialsKind tells a token service that is down, which passes, from credentials that are not there.
func gcsCredentialsKind(err credentialsError) Kind {
	if ae, ok := errors.AsType[*auth.Error](err.err); ok && ae.Response != nil {
		if status := ae.Response.StatusCode; status >= 500 || status == http.StatusTooManyRequests {
			return Unavailable
		}
	}
	return credentialsKind(err)
}

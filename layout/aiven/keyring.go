package aiven

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	"crypto/sha3"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dataKeySize    = 32
	maxModulusBits = 16384
)

// ErrKey says that a segment cannot be read with the keys at hand: the one that it names is unknown, or another key.
var ErrKey = errors.New("data key cannot be unwrapped")

// PrivateKey is one of the plugin's encryption.key.pairs.
type PrivateKey struct {
	ID string
	// PEM is an RSA key as PKCS#8 ("PRIVATE KEY", what the plugin wants) or PKCS#1 ("RSA PRIVATE KEY"), not protected by
	// a password. Two ids may have the same key: an alias.
	PEM []byte
}

// keys is the present keyring. When it does not open a segment, the keys are read again: new ones are rolled out while
// readers run. Reads whose keys are known wait neither for each other nor for that.
type keys struct {
	reload func() ([]PrivateKey, error) // nil: the keys stay as they are
	ring   atomic.Pointer[keyring]

	mu   sync.Mutex
	read time.Time // when the keys were last read
}

func newKeys(ring keyring, reload func() ([]PrivateKey, error)) *keys {
	k := &keys{reload: reload}
	k.ring.Store(&ring)
	return k
}

// reloadPause is the least time between readings of the keys, so that segments with unknown keys cause no more of them.
const reloadPause = time.Second

// open is keyring.open with the newest keys. Keys that cannot be read, or not all of them, leave the ring as it is, and
// the error says so.
func (k *keys) open(s *sealing) (cipher.AEAD, error) {
	ring := k.ring.Load()
	aead, err := ring.open(s)
	if err == nil || k.reload == nil {
		return aead, err
	}
	newest, failed := k.newerThan(ring)
	switch {
	case failed != nil:
		return nil, fmt.Errorf("%w (the keys cannot be read again: %w)", err, failed)
	case newest == ring:
		return nil, err
	}
	return newest.open(s)
}

// newerThan reads the keys again, unless that was done since the ring was made, or just now.
func (k *keys) newerThan(ring *keyring) (*keyring, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.ring.Load(); now != ring || time.Since(k.read) < reloadPause {
		return now, nil
	}
	k.read = time.Now()
	list, err := k.reload()
	if err != nil {
		return nil, err
	}
	newest, err := newKeyring(list)
	if err != nil {
		return nil, err
	}
	k.ring.Store(&newest)
	return &newest, nil
}

// keyring unwraps data keys. Immutable.
type keyring struct {
	ids  []string
	keys map[string]*rsa.PrivateKey
}

func newKeyring(keys []PrivateKey) (keyring, error) {
	r := keyring{keys: make(map[string]*rsa.PrivateKey)}
	for _, k := range keys {
		if strings.TrimSpace(k.ID) == "" || strings.Contains(k.ID, ":") || len(k.ID) > maxKeyID {
			return keyring{}, fmt.Errorf("%q cannot be the id of a key", k.ID)
		}
		if r.keys[k.ID] != nil {
			return keyring{}, fmt.Errorf("key id %q is given twice", k.ID)
		}
		key, err := parsePrivateKey(k.PEM)
		if err != nil {
			return keyring{}, fmt.Errorf("key %q: %w", k.ID, err)
		}
		r.ids = append(r.ids, k.ID)
		r.keys[k.ID] = key
	}
	return r, nil
}

func parsePrivateKey(text []byte) (*rsa.PrivateKey, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		private, ok := key.(*rsa.PrivateKey)
		if !ok {
			return nil, errors.New("not an RSA key")
		}
		if bits := private.N.BitLen(); bits > maxModulusBits {
			return nil, fmt.Errorf("%d bits, at most %d are allowed", bits, maxModulusBits)
		}
		return private, nil
	}
	return nil, errors.New("no private key in PEM without a password")
}

// open gives the cipher of a segment. Errors wrap ErrKey and name the key id.
func (r *keyring) open(s *sealing) (cipher.AEAD, error) {
	if s.keyID == "" {
		for _, id := range r.ids {
			if key, err := r.unwrap(id, s.wrapped); err == nil {
				return newAEAD(key)
			}
		}
		return nil, fmt.Errorf("%w: it names no key id, and none of the keys %s opens it", ErrKey, r.list())
	}
	if r.keys[s.keyID] == nil {
		return nil, fmt.Errorf("%w: it was wrapped with key id %q, which is not among the keys %s", ErrKey, s.keyID, r.list())
	}
	key, err := r.unwrap(s.keyID, s.wrapped)
	if err != nil {
		return nil, fmt.Errorf("%w: the private key of key id %q does not open it: %w", ErrKey, s.keyID, err)
	}
	return newAEAD(key)
}

// unwrap follows the plugin's RsaEncryptionProvider, which hashes with SHA3-512 in both places (MGF1 too).
func (r *keyring) unwrap(id string, wrapped []byte) ([]byte, error) {
	key, err := rsa.DecryptOAEP(sha3.New512(), nil, r.keys[id], wrapped, nil)
	if err == nil && len(key) != dataKeySize {
		err = fmt.Errorf("a data key of %d bytes", len(key))
	}
	return key, err
}

func (r *keyring) list() string {
	if len(r.ids) == 0 {
		return "(none configured)"
	}
	return fmt.Sprintf("%q", r.ids)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

package aiven

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"hash"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func wrapped(t *testing.T, w *writer) *sealing {
	t.Helper()
	id, text, _ := strings.Cut(w.wrap(), ":")
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return &sealing{keyID: id, wrapped: b}
}

func mustRing(t *testing.T, keys ...PrivateKey) *keyring {
	t.Helper()
	r, err := newKeyring(keys)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

func TestKeyRotation(t *testing.T) {
	other := otherKey()
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(other)})
	ring := mustRing(t, PrivateKey{"old", pkcs8(t, testKey())}, PrivateKey{"new", pkcs1}, PrivateKey{"static-key-id", pkcs1})
	for _, w := range []*writer{
		{keyID: "old", key: testKey(), dataKey: random(32)},
		{keyID: "new", key: other, dataKey: random(32)},
		{keyID: "static-key-id", key: other, dataKey: random(32)},
		{keyID: "", key: other, dataKey: random(32)}, // before ids were written: any key of the ring
	} {
		s := wrapped(t, w)
		aead, err := ring.open(s)
		if err != nil {
			t.Errorf("key id %q: %v", w.keyID, err)
			continue
		}
		w.aad = []byte("x")
		if b, err := unseal(aead, w.aad, w.seal([]byte("text")), nil); err != nil || string(b) != "text" {
			t.Errorf("key id %q opens to %q, %v", w.keyID, b, err)
		}
	}
}

// What an operator reads must say which key to look for.
func TestKeyErrorsNameTheID(t *testing.T) {
	other := otherKey()
	ring := mustRing(t, PrivateKey{"k1", pkcs8(t, testKey())}, PrivateKey{"k2", pkcs8(t, other)})
	damaged := wrapped(t, &writer{keyID: "k1", key: testKey(), dataKey: random(32)})
	damaged.wrapped[17] ^= 1
	cut := &sealing{keyID: "k1", wrapped: []byte{1, 2, 3}}
	foreign := func(h hash.Hash) *sealing { // a hash that other writers use
		b, err := rsa.EncryptOAEP(h, rand.Reader, &testKey().PublicKey, random(32), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &sealing{keyID: "k1", wrapped: b}
	}
	for name, tt := range map[string]struct {
		s    *sealing
		says []string
	}{
		"unknown":        {&sealing{keyID: "k9"}, []string{`"k9"`, `["k1" "k2"]`}},
		"wrong":          {wrapped(t, &writer{keyID: "k2", key: testKey(), dataKey: random(32)}), []string{`"k2"`, "does not open it"}},
		"damaged":        {damaged, []string{`"k1"`, "does not open it"}},
		"cut":            {cut, []string{`"k1"`, "does not open it"}},
		"SHA-1":          {foreign(sha1.New()), []string{`"k1"`}},
		"SHA-512":        {foreign(sha512.New()), []string{`"k1"`}},
		"short data key": {wrapped(t, &writer{keyID: "k1", key: testKey(), dataKey: random(16)}), []string{`"k1"`, "16 bytes"}},
		"no id":          {&sealing{wrapped: []byte{1}}, []string{"no key id", `["k1" "k2"]`}},
	} {
		_, err := ring.open(tt.s)
		if !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range tt.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %s", name, err, part)
			}
		}
	}
	if _, err := mustRing(t).open(&sealing{keyID: "k1"}); err == nil || !strings.Contains(err.Error(), "none configured") {
		t.Errorf("without keys: %v", err)
	}
}

func TestUselessKeys(t *testing.T) {
	good := pkcs8(t, testKey())
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte{1}})
	for name, keys := range map[string][]PrivateKey{
		"no id":            {{"", good}},
		"blank id":         {{" ", good}},
		"colon":            {{"a:b", good}},
		"same id twice":    {{"a", good}, {"a", good}},
		"no PEM":           {{"a", []byte("hello")}},
		"public key":       {{"a", public}},
		"curve":            {{"a", pkcs8(t, curve)}},
		"damaged":          {{"a", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1, 2}})}},
		"damaged, PKCS #1": {{"a", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: []byte{1, 2}})}},
	} {
		if _, err := newKeyring(keys); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if r := mustRing(t, PrivateKey{"a", append(public, good...)}); len(r.ids) != 1 {
		t.Error("a private key behind another block was not found")
	}
}

// TestNewKeysAreRead when a segment names one that is not at hand, at most once a second; what cannot be read changes
// nothing.
func TestNewKeysAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, new := PrivateKey{"old", pkcs8(t, testKey())}, PrivateKey{"new", pkcs8(t, otherKey())}
		reads, list, failed := 0, []PrivateKey{old}, error(nil)
		k := newKeys(*mustRing(t, old), func() ([]PrivateKey, error) { reads++; return list, failed })
		first := wrapped(t, &writer{keyID: "old", key: testKey(), dataKey: random(32)})
		later := wrapped(t, &writer{keyID: "new", key: otherKey(), dataKey: random(32)})
		open := func(s *sealing, ok bool, wantReads int) (err error) {
			t.Helper()
			_, err = k.open(s)
			if (err == nil) != ok || reads != wantReads || err != nil && !errors.Is(err, ErrKey) {
				t.Errorf("%v after %d readings, want %d", err, reads, wantReads)
			}
			return err
		}
		open(first, true, 0)
		open(later, false, 1)
		list = []PrivateKey{old, new}
		open(later, false, 1) // not yet again
		time.Sleep(reloadPause)
		failed = errors.New("no such folder")
		if err := open(later, false, 2); !strings.Contains(err.Error(), "no such folder") || !strings.Contains(err.Error(), `"new"`) {
			t.Errorf("%v", err)
		}
		failed, list = nil, []PrivateKey{new, {"half", []byte("-----BEGIN PRIV")}}
		time.Sleep(reloadPause)
		open(later, false, 3)
		open(first, true, 3)
		list = []PrivateKey{old, new}
		time.Sleep(reloadPause)
		open(later, true, 4)
		open(first, true, 4)
	})
}

// TestKnownKeysWaitForNoReading: while the keys are being read, from a folder that hangs, segments whose keys are at
// hand open.
func TestKnownKeysWaitForNoReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := PrivateKey{"old", pkcs8(t, testKey())}
		hangs := make(chan struct{})
		k := newKeys(*mustRing(t, old), func() ([]PrivateKey, error) { <-hangs; return []PrivateKey{old}, nil })
		known := wrapped(t, &writer{keyID: "old", key: testKey(), dataKey: random(32)})
		unknown := wrapped(t, &writer{keyID: "new", key: otherKey(), dataKey: random(32)})
		answered := make(chan error)
		go func() { _, err := k.open(unknown); answered <- err }()
		synctest.Wait()
		if _, err := k.open(known); err != nil {
			t.Error(err)
		}
		close(hangs)
		if err := <-answered; !errors.Is(err, ErrKey) {
			t.Error(err)
		}
	})
}

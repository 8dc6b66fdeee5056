package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
)

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mechanismOf(t *testing.T, o SASLOptions) sasl.Mechanism {
	t.Helper()
	m, err := o.Mechanism()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSASL(t *testing.T) {
	for _, name := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(name, func(t *testing.T) {
			k := brokers(t, kfake.EnableSASL(), kfake.Superuser(name, "reader", "secret"))
			cfg := quiet(k.ListenAddrs()...)
			cfg.SASL = mechanismOf(t, SASLOptions{Name: name, Username: "reader", PasswordFile: file(t, "password", "secret\n")})
			c := open(t, cfg, nil)
			watch(t, c, "orders")
			if p := part(t, c, 0); p.HighWatermark != 0 {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// TestSASLRefused answers as Kafka does; kfake itself hangs up.
func TestSASLRefused(t *testing.T) {
	k := brokers(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "reader", "secret"))
	k.ControlKey(int16(kmsg.SASLAuthenticate), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		resp.ErrorMessage = kmsg.StringPtr("Authentication failed")
		return resp, nil, true
	})
	cfg := quiet(k.ListenAddrs()...)
	cfg.SASL = mechanismOf(t, SASLOptions{Name: "PLAIN", Username: "reader", Password: "wrong"})
	err := open(t, cfg, nil).Refresh(t.Context())
	wantKind(t, err, Unauthorized)
	named := slices.ContainsFunc(k.ListenAddrs(), func(addr string) bool { return strings.Contains(err.Error(), "SASL with "+addr) })
	if err.(*Error).Retriable() || strings.Contains(err.Error(), "wrong") || !named {
		t.Errorf("got %v", err)
	}
}

// TestSASLPasswordRotates replaces the file between two authentications, then takes it away.
func TestSASLPasswordRotates(t *testing.T) {
	path := file(t, "password", "old")
	m := mechanismOf(t, SASLOptions{Name: "PLAIN", Username: "reader", PasswordFile: path})
	first := func() string {
		_, raw, err := m.Authenticate(t.Context(), "broker")
		if err != nil {
			return err.Error()
		}
		return string(raw)
	}
	if got := first(); got != "\x00reader\x00old" {
		t.Errorf("sent %q", got)
	}
	if err := os.WriteFile(path, []byte("new\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := first(); got != "\x00reader\x00new" {
		t.Errorf("sent %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := first(); !strings.HasPrefix(got, "password_file: ") {
		t.Errorf("got %q", got)
	}
	k := brokers(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "reader", "new"))
	cfg := quiet(k.ListenAddrs()...)
	cfg.SASL = m
	err := open(t, cfg, nil).Refresh(t.Context())
	wantKind(t, err, Unauthorized)
	if !strings.Contains(err.Error(), "password_file") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestSASLPasswordComesLate: a secret that is mounted after the start is found at the next authentication.
func TestSASLPasswordComesLate(t *testing.T) {
	o := SASLOptions{Name: "SCRAM-SHA-512", Username: "reader", PasswordFile: filepath.Join(t.TempDir(), "password")}
	wantKind(t, o.Check(), Option)
	k := brokers(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "reader", "secret"))
	cfg := quiet(k.ListenAddrs()...)
	cfg.SASL = mechanismOf(t, o)
	c := open(t, cfg, nil)
	wantKind(t, c.Refresh(t.Context()), Unauthorized)
	if err := os.WriteFile(o.PasswordFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(); err != nil {
		t.Error(err)
	}
	refreshed(t, c)
}

func TestSASLToken(t *testing.T) {
	m := mechanismOf(t, SASLOptions{Name: "OAUTHBEARER", TokenFile: file(t, "token", "a.b.c\n")})
	_, raw, err := m.Authenticate(t.Context(), "broker")
	if err != nil || !strings.Contains(string(raw), "auth=Bearer a.b.c\x01") {
		t.Errorf("sent %q, error %v", raw, err)
	}
}

func TestSASLOptionsThatCannotWork(t *testing.T) {
	empty := file(t, "empty", "")
	for _, tt := range []struct {
		o      SASLOptions
		option string
	}{
		{SASLOptions{Name: "GSSAPI", Username: "u"}, "mechanism"},
		{SASLOptions{Username: "u", Password: "p"}, "mechanism"},
		{SASLOptions{Name: "PLAIN", Password: "p"}, "username"},
		{SASLOptions{Name: "PLAIN", Username: "u"}, "password"},
		{SASLOptions{Name: "PLAIN", Username: "u", Password: "p", PasswordFile: "f"}, "password_file"},
		{SASLOptions{Name: "SCRAM-SHA-256", Username: "u", PasswordFile: empty + "-missing"}, "password_file"},
		{SASLOptions{Name: "SCRAM-SHA-512", Username: "u", PasswordFile: empty}, "password_file"},
		{SASLOptions{Name: "PLAIN", Username: "u", Password: "p", Token: "t"}, "token"},
		{SASLOptions{Name: "PLAIN", Username: "u", PasswordFile: file(t, "large", strings.Repeat("x", secretSize+1))}, "password_file"},
		{SASLOptions{Name: "OAUTHBEARER"}, "token"},
		{SASLOptions{Name: "OAUTHBEARER", Username: "u", Token: "t"}, "username"},
	} {
		err := tt.o.Check()
		wantKind(t, err, Option)
		if err.(*Error).Op != tt.option {
			t.Errorf("%+v: got %v, want %s", tt.o, err, tt.option)
		}
	}
	if m, err := (SASLOptions{}).Mechanism(); m != nil || err != nil {
		t.Errorf("nothing set: %v, %v", m, err)
	}
	if s := (SASLOptions{Name: "PLAIN", Username: "u", Password: "secret"}).String(); strings.Contains(s, "secret") {
		t.Errorf("printed as %q", s)
	}
}

// selfSigned makes a certificate for 127.0.0.1 and gives it as PEM with its key.
func selfSigned(t *testing.T, name string) (certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}

func TestTLS(t *testing.T) {
	serverCert, serverKey := selfSigned(t, "broker.test")
	clientCert, clientKey := selfSigned(t, "client.test")
	pair, err := tls.X509KeyPair([]byte(serverCert), []byte(serverKey))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(clientCert))
	k := brokers(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}))

	good := TLSOptions{CAFile: file(t, "ca.pem", serverCert), CertFile: file(t, "cert.pem", clientCert), KeyFile: file(t, "key.pem", clientKey)}
	for _, tt := range []struct {
		name   string
		change func(*TLSOptions)
		ok     bool
	}{
		{"as it should be", func(*TLSOptions) {}, true},
		{"by the certificate's name", func(o *TLSOptions) { o.ServerName = "broker.test" }, true},
		{"another name", func(o *TLSOptions) { o.ServerName = "other.test" }, false},
		{"the system's roots", func(o *TLSOptions) { o.CAFile = "" }, false},
		{"unchecked", func(o *TLSOptions) { o.CAFile, o.InsecureSkipVerify = "", true }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			tt.change(&o)
			cfg := quiet(k.ListenAddrs()...)
			if cfg.TLS, err = o.Config(); err != nil {
				t.Fatal(err)
			}
			c := open(t, cfg, nil)
			if tt.ok {
				watch(t, c, "orders")
				part(t, c, 0)
				return
			}
			err := c.Refresh(t.Context())
			wantKind(t, err, Unauthorized)
			if !strings.Contains(err.Error(), "TLS with 127.0.0.1:") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestTLSRefusedByTheBroker, which in TLS 1.3 says so after our handshake is over.
func TestTLSRefusedByTheBroker(t *testing.T) {
	serverCert, serverKey := selfSigned(t, "broker.test")
	clientCert, clientKey := selfSigned(t, "client.test")
	pair, err := tls.X509KeyPair([]byte(serverCert), []byte(serverKey))
	if err != nil {
		t.Fatal(err)
	}
	ca := file(t, "ca.pem", serverCert)
	for name, o := range map[string]TLSOptions{
		"none":              {CAFile: ca},
		"of another issuer": {CAFile: ca, CertFile: file(t, "cert.pem", clientCert), KeyFile: file(t, "key.pem", clientKey)},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(name+" in "+tls.VersionName(version), func(t *testing.T) {
				listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MaxVersion: version,
					ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()})
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					for {
						conn, err := listener.Accept()
						if err != nil {
							return
						}
						_ = conn.(*tls.Conn).Handshake() // it fails, and the alert is out
						raw := conn.(*tls.Conn).NetConn()
						_ = raw.(*net.TCPConn).CloseWrite()
						_, _ = io.Copy(io.Discard, raw) // else the kernel drops the alert
						_ = raw.Close()
					}
				}()
				addr := listener.Addr().String()
				cfg := quiet(addr)
				if cfg.TLS, err = o.Config(); err != nil {
					t.Fatal(err)
				}
				c := open(t, cfg, nil)
				refused := c.Refresh(t.Context())
				c.Close()
				_ = listener.Close()
				<-done
				wantKind(t, refused, Unauthorized)
				if s := refused.Error(); !strings.Contains(s, "TLS with "+addr) || !strings.Contains(s, ": the broker ") {
					t.Errorf("got %s", s)
				}
			})
		}
	}
}

// TestTLSRootsRotate: a CA file that is replaced in place counts from the next connection on, one that is damaged does
// not.
func TestTLSRootsRotate(t *testing.T) {
	serverCert, serverKey := selfSigned(t, "broker.test")
	otherCert, _ := selfSigned(t, "other.test")
	pair, err := tls.X509KeyPair([]byte(serverCert), []byte(serverKey))
	if err != nil {
		t.Fatal(err)
	}
	k := brokers(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	o := TLSOptions{CAFile: file(t, "ca.pem", otherCert)}
	cfg := quiet(k.ListenAddrs()...)
	if cfg.TLS, err = o.Config(); err != nil {
		t.Fatal(err)
	}
	replace := func(content string) {
		t.Helper()
		if err := os.WriteFile(o.CAFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, cfg, nil)
	wantKind(t, c.Refresh(t.Context()), Unauthorized)
	replace(serverCert)
	refreshed(t, c)
	replace("half a certif")
	wantKind(t, o.Check(), Option)
	cfg.Registerer = nil
	refreshed(t, open(t, cfg, nil)) // new connections
	replace(otherCert)
	wantKind(t, open(t, cfg, nil).Refresh(t.Context()), Unauthorized)
}

// TestTLSCertificateRotates replaces the files one after the other.
func TestTLSCertificateRotates(t *testing.T) {
	oldCert, oldKey := selfSigned(t, "old.test")
	newCert, newKey := selfSigned(t, "new.test")
	o := TLSOptions{CertFile: file(t, "cert.pem", oldCert), KeyFile: file(t, "key.pem", oldKey)}
	cfg, err := o.Config()
	if err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		t.Helper()
		cert, err := cfg.pair.current()
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.Subject.CommonName
	}
	replace := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := shown(); got != "old.test" {
		t.Errorf("shows %s", got)
	}
	replace(o.CertFile, newCert)
	if got := shown(); got != "old.test" {
		t.Errorf("half replaced, it shows %s", got)
	}
	replace(o.KeyFile, newKey)
	if got := shown(); got != "new.test" {
		t.Errorf("shows %s", got)
	}
}

func TestTLSOptionsThatCannotWork(t *testing.T) {
	cert, key := selfSigned(t, "a.test")
	_, otherKey := selfSigned(t, "b.test")
	certFile, keyFile, otherFile := file(t, "cert.pem", cert), file(t, "key.pem", key), file(t, "other.pem", otherKey)
	for _, tt := range []struct {
		o      TLSOptions
		option string
	}{
		{TLSOptions{CAFile: certFile + "-missing"}, "ca_file"},
		{TLSOptions{CAFile: keyFile}, "ca_file"},
		{TLSOptions{CertFile: certFile}, "key_file"},
		{TLSOptions{KeyFile: keyFile}, "cert_file"},
		{TLSOptions{CertFile: certFile + "-missing", KeyFile: keyFile}, "cert_file"},
		{TLSOptions{CertFile: certFile, KeyFile: keyFile + "-missing"}, "key_file"},
		{TLSOptions{CertFile: certFile, KeyFile: otherFile}, "cert_file and key_file"},
	} {
		_, err := tt.o.Config()
		wantKind(t, err, Option)
		if err.(*Error).Op != tt.option {
			t.Errorf("%+v: got %v, want %s", tt.o, err, tt.option)
		}
	}
	if cfg, err := (TLSOptions{}).Config(); cfg != nil || err != nil {
		t.Errorf("nothing set: %v, %v", cfg, err)
	}
	if cfg, err := (TLSOptions{Enabled: true}).Config(); cfg == nil || err != nil {
		t.Errorf("enabled: %v, %v", cfg, err)
	}
}

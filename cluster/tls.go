package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
)

// TLSOptions is TLS to the brokers as a configuration file has it. The zero value is plaintext; any field that is set
// turns TLS on, and so does Enabled, which is for brokers whose certificate the system's roots vouch for.
type TLSOptions struct {
	Enabled            bool   `yaml:"enabled"`
	CAFile             string `yaml:"ca_file"`   // PEM; instead of the system's roots
	CertFile           string `yaml:"cert_file"` // PEM; together with KeyFile the client's certificate
	KeyFile            string `yaml:"key_file"`
	ServerName         string `yaml:"server_name"` // instead of the broker's host in checking its certificate
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
}

// TLS makes what crypto/tls needs for each new connection. Safe for concurrent use.
type TLS struct {
	opt  TLSOptions
	ca   *caFile  // nil = the system's roots
	pair *keyPair // nil = no client certificate
}

// Config reads the files, and gives nil for plaintext. They are read again for each connection, so that what was
// replaced in place is picked up; while a file cannot be read, or certificate and key do not fit each other, what was
// last good goes on. An error is an *Error of Kind Option that names the option.
func (o TLSOptions) Config() (*TLS, error) {
	if o == (TLSOptions{}) {
		return nil, nil
	}
	t := &TLS{opt: o}
	if o.CAFile != "" {
		t.ca = &caFile{path: o.CAFile}
		if _, err := t.ca.load(); err != nil {
			return nil, err
		}
	}
	switch {
	case o.CertFile == "" && o.KeyFile == "":
		return t, nil
	case o.CertFile == "":
		return nil, &Error{Kind: Option, Op: "cert_file", Err: errors.New("is needed beside key_file")}
	case o.KeyFile == "":
		return nil, &Error{Kind: Option, Op: "key_file", Err: errors.New("is needed beside cert_file")}
	}
	t.pair = &keyPair{certFile: o.CertFile, keyFile: o.KeyFile}
	if _, err := t.pair.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// Check says what is wrong with the options or with the files as they are now: Config's error.
func (o TLSOptions) Check() error {
	_, err := o.Config()
	return err
}

// config is for one connection to a host.
func (t *TLS) config(host string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.opt.ServerName, InsecureSkipVerify: t.opt.InsecureSkipVerify}
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	if t.ca != nil {
		roots, err := t.ca.current()
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = roots
	}
	if t.pair != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.pair.current() }
	}
	return cfg, nil
}

// caFile are the roots that brokers' certificates are checked against; the file may be replaced at any time.
type caFile struct {
	path string

	mu   sync.Mutex
	last *x509.CertPool
}

func (c *caFile) load() (*x509.CertPool, error) {
	pem, err := readSmall(c.path, caFileSize)
	if err != nil {
		return nil, &Error{Kind: Option, Op: "ca_file", Err: err}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, &Error{Kind: Option, Op: "ca_file", Err: errors.New(c.path + " holds no certificate")}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = roots
	return roots, nil
}

// current is safe for concurrent use.
func (c *caFile) current() (*x509.CertPool, error) {
	roots, err := c.load()
	if err == nil {
		return roots, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		return c.last, nil
	}
	return nil, err
}

// keyPair is a client certificate whose files may be replaced at any time, one after the other.
type keyPair struct {
	certFile, keyFile string

	mu   sync.Mutex
	last *tls.Certificate
}

func (k *keyPair) load() (*tls.Certificate, error) {
	certPEM, err := readSmall(k.certFile, caFileSize)
	if err != nil {
		return nil, &Error{Kind: Option, Op: "cert_file", Err: err}
	}
	keyPEM, err := readSmall(k.keyFile, caFileSize)
	if err != nil {
		return nil, &Error{Kind: Option, Op: "key_file", Err: err}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, &Error{Kind: Option, Op: "cert_file and key_file", Err: err}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = &cert
	return &cert, nil
}

// current is safe for concurrent use.
func (k *keyPair) current() (*tls.Certificate, error) {
	cert, err := k.load()
	if err == nil {
		return cert, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil {
		return k.last, nil
	}
	return nil, err
}

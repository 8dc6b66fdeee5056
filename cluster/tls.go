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
	ca   *reloaded[x509.CertPool]   // nil = the system's roots
	pair *reloaded[tls.Certificate] // nil = no client certificate
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
		t.ca = &reloaded[x509.CertPool]{read: o.readCA}
		if _, err := t.ca.current(); err != nil {
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
	t.pair = &reloaded[tls.Certificate]{read: o.readKeyPair}
	if _, err := t.pair.current(); err != nil {
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

// readCA reads the roots that brokers' certificates are checked against.
func (o TLSOptions) readCA() (*x509.CertPool, error) {
	pem, err := readSmall(o.CAFile, caFileSize)
	if err != nil {
		return nil, &Error{Kind: Option, Op: "ca_file", Err: err}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, &Error{Kind: Option, Op: "ca_file", Err: errors.New(o.CAFile + " holds no certificate")}
	}
	return roots, nil
}

// readKeyPair reads the client's certificate. Its files may be replaced one after the other.
func (o TLSOptions) readKeyPair() (*tls.Certificate, error) {
	certPEM, err := readSmall(o.CertFile, caFileSize)
	if err != nil {
		return nil, &Error{Kind: Option, Op: "cert_file", Err: err}
	}
	keyPEM, err := readSmall(o.KeyFile, caFileSize)
	if err != nil {
		return nil, &Error{Kind: Option, Op: "key_file", Err: err}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, &Error{Kind: Option, Op: "cert_file and key_file", Err: err}
	}
	return &cert, nil
}

// reloaded is what files hold that may be replaced at any time.
type reloaded[T any] struct {
	read func() (*T, error)

	mu   sync.Mutex
	last *T // nil = not read yet
}

// current reads the files; while they cannot be read, what was last good goes on. Safe for concurrent use.
func (r *reloaded[T]) current() (*T, error) {
	v, err := r.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.last = v
	}
	if r.last == nil {
		return nil, err
	}
	return r.last, nil
}

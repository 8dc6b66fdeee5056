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

// Config gives what crypto/tls needs, nil for plaintext. The client's certificate is read again for each handshake, so
// that rotated files are picked up; while the files do not fit each other the last good pair goes on. The CA file is read
// once. An error is an *Error of Kind Option that names the option.
func (o TLSOptions) Config() (*tls.Config, error) {
	if o == (TLSOptions{}) {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName, InsecureSkipVerify: o.InsecureSkipVerify}
	if o.CAFile != "" {
		pem, err := readSmall(o.CAFile, caFileSize)
		if err != nil {
			return nil, &Error{Kind: Option, Op: "ca_file", Err: err}
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &Error{Kind: Option, Op: "ca_file", Err: errors.New(o.CAFile + " holds no certificate")}
		}
	}
	switch {
	case o.CertFile == "" && o.KeyFile == "":
		return cfg, nil
	case o.CertFile == "":
		return nil, &Error{Kind: Option, Op: "cert_file", Err: errors.New("is needed beside key_file")}
	case o.KeyFile == "":
		return nil, &Error{Kind: Option, Op: "key_file", Err: errors.New("is needed beside cert_file")}
	}
	pair := &keyPair{certFile: o.CertFile, keyFile: o.KeyFile}
	if _, err := pair.load(); err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.current() }
	return cfg, nil
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

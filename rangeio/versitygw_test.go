package rangeio_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"go/build"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	sdkcredentials "github.com/aws/aws-sdk-go-v2/credentials"

	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

// versitygw is a real S3 server over a folder, run when its binary is there: go install
// github.com/versity/versitygw/cmd/versitygw@v1.8.0. It keeps the fake honest.
type versitygw struct {
	buckets string // each folder in it is a bucket
	config  rangeio.S3Config
}

// startVersitygw runs one server until the end of t; with TLS its certificate is trusted through the environment.
func startVersitygw(t *testing.T, tls bool) *versitygw {
	binary, err := exec.LookPath("versitygw")
	if err != nil {
		binary = filepath.Join(build.Default.GOPATH, "bin", "versitygw")
		if _, err := os.Stat(binary); err != nil {
			t.Skip("versitygw is not installed")
		}
	}
	dir := t.TempDir()
	root, sidecar := filepath.Join(dir, "root"), filepath.Join(dir, "attributes")
	for _, d := range []string{root, sidecar} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	args, scheme := []string{"--port", address, "--access", "key", "--secret", "secret", "--quiet"}, "http"
	if tls {
		cert, key := makeCertificate(t, dir)
		args, scheme = append(args, "--cert", cert, "--key", key), "https"
		t.Setenv("AWS_CA_BUNDLE", cert)
	}
	server := exec.Command(binary, append(args, "posix", "--sidecar", sidecar, root)...)
	var output bytes.Buffer
	server.Stdout, server.Stderr = &output, &output
	server.Dir = dir
	if err := server.Start(); err != nil {
		t.Skip(err)
	}
	exited := make(chan struct{})
	go func() { server.Wait(); close(exited) }()
	t.Cleanup(func() {
		server.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("versitygw: %s", output.Bytes())
		}
	})
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case <-exited:
			t.Fatalf("versitygw ended: %s", output.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return &versitygw{buckets: root, config: rangeio.S3Config{
		Region: "us-east-1", Endpoint: scheme + "://" + address, PathStyle: true, Connections: 8,
		Credentials: sdkcredentials.NewStaticCredentialsProvider("key", "secret", ""),
	}}
}

func (v *versitygw) open(t *testing.T, bucket string) rangeio.Backend {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(v.buckets, bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := v.config
	cfg.Bucket = bucket
	b, err := rangeio.OpenS3(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestVersitygwAcceptance(t *testing.T) {
	if testing.Short() {
		t.Skip("the server writes a thousand objects to disk")
	}
	server, n := startVersitygw(t, false), 0
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend {
		n++
		return server.open(t, fmt.Sprint("bucket-", n))
	})
}

// TestVersitygwOverTLS: over TLS the SDK sends checksums as trailers of a chunked body, which the plain HTTP tests
// never see.
func TestVersitygwOverTLS(t *testing.T) {
	server := startVersitygw(t, true)
	b := server.open(t, "bucket")
	for _, size := range []int{0, 1000, 20 << 20} {
		content, key := rangeiotest.Bytes(uint64(size), size), fmt.Sprint("of ", size)
		info := put(t, b, key, content)
		got, _, _, err := rangeio.NewClient(b, rangeio.Config{}).ReadObject(t.Context(), key, int64(size))
		if err != nil || !bytes.Equal(got, content) || info.Size != int64(size) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// makeCertificate writes a self-signed certificate for 127.0.0.1.
func makeCertificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}

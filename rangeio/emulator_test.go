package rangeio_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"go/build"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

// startEmulator runs a store's server on a free port until the end of t; args is given its address. The test is skipped
// when the binary is neither in the path nor where go install puts it.
func startEmulator(t *testing.T, name string, args func(host, port string) []string) (address string) {
	t.Helper()
	binary, err := exec.LookPath(name)
	if err != nil {
		binary = filepath.Join(build.Default.GOPATH, "bin", name)
		if _, err := os.Stat(binary); err != nil {
			t.Skip(name + " is not installed")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	host, port, _ := net.SplitHostPort(address)
	l.Close()
	server := exec.Command(binary, args(host, port)...)
	var output bytes.Buffer
	server.Stdout, server.Stderr, server.Dir = &output, &output, t.TempDir()
	if err := server.Start(); err != nil {
		t.Skip(err)
	}
	exited := make(chan struct{})
	go func() { server.Wait(); close(exited) }()
	t.Cleanup(func() {
		server.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("%s: %.4000s", name, output.Bytes())
		}
	})
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return address
		}
		select {
		case <-exited:
			t.Fatalf("%s ended: %s", name, output.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The account that Azurite is born with; name and key are in its manual.
const (
	azuriteAccount = "devstoreaccount1"
	azuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// startAzurite runs Microsoft's emulator (npm install azurite) and gives what makes an empty container. --loose,
// because it knows no CRC-64.
func startAzurite(t *testing.T) func(t *testing.T, change func(*rangeio.AzureConfig)) rangeio.Backend {
	address := startEmulator(t, "azurite-blob", func(host, port string) []string {
		return []string{"--blobHost", host, "--blobPort", port, "--loose", "--skipApiVersionCheck", "--silent", "--disableTelemetry",
			"--inMemoryPersistence"}
	})
	n := 0
	return func(t *testing.T, change func(*rangeio.AzureConfig)) rangeio.Backend {
		t.Helper()
		n++
		cfg := rangeio.AzureConfig{
			Account: azuriteAccount, AccountKey: azuriteKey, Endpoint: "http://" + address + "/" + azuriteAccount, Container: fmt.Sprint("container-", n),
		}
		key, err := container.NewSharedKeyCredential(azuriteAccount, azuriteKey)
		if err != nil {
			t.Fatal(err)
		}
		admin, err := container.NewClientWithSharedKeyCredential(cfg.Endpoint+"/"+cfg.Container, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Create(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		http.DefaultClient.CloseIdleConnections()
		if change != nil {
			change(&cfg)
		}
		return openAzure(t, cfg)
	}
}

func openAzure(t *testing.T, cfg rangeio.AzureConfig) rangeio.Backend {
	t.Helper()
	b, err := rangeio.OpenAzure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestAzuriteAcceptance(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand requests to a slow server")
	}
	open := startAzurite(t)
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend {
		return open(t, func(c *rangeio.AzureConfig) { c.Prefix = "x+y z/%2F-" })
	}, `\`, "./")
}

// TestAzuriteCredentials: the ways to say who we are that an emulator can check.
func TestAzuriteCredentials(t *testing.T) {
	open := startAzurite(t)
	for name, change := range map[string]func(*rangeio.AzureConfig){
		"account key": nil,
		"connection string": func(c *rangeio.AzureConfig) {
			c.ConnectionString = fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;", c.Account, c.AccountKey, c.Endpoint)
			c.Account, c.AccountKey, c.Endpoint = "", "", ""
		},
		"SAS": func(c *rangeio.AzureConfig) { c.SAS, c.AccountKey = "?"+azuriteSAS(t, c.Endpoint+"/"+c.Container), "" },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, change)
			for _, size := range []int{0, 1000, 20 << 20} {
				roundTrip(t, b, fmt.Sprint("of ", size), size)
			}
		})
	}
	b := open(t, func(c *rangeio.AzureConfig) { c.AccountKey = "d3Jvbmc=" })
	_, err := b.Stat(t.Context(), "o")
	rangeiotest.IsKind(t, err, rangeio.Forbidden)
	b = open(t, func(c *rangeio.AzureConfig) { c.Container = "another" })
	storeWithoutBucket(t, b)
}

func azuriteSAS(t *testing.T, containerURL string) string {
	t.Helper()
	key, err := container.NewSharedKeyCredential(azuriteAccount, azuriteKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := container.NewClientWithSharedKeyCredential(containerURL, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := client.GetSASURL(allContainerPermissions, time.Now().Add(time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(signed, "?")
	return query
}

// roundTrip puts, reads back through the client, and deletes.
func roundTrip(t *testing.T, b rangeio.Backend, key string, size int) {
	t.Helper()
	content, c := rangeiotest.Bytes(uint64(size), size), quick(b)
	info, err := c.Put(t.Context(), key, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	got, found, cost, err := c.ReadObject(t.Context(), key, int64(size))
	if err != nil || !bytes.Equal(got, content) || found != info || cost.Requests != 1 {
		t.Errorf("%q: %d bytes, %+v, put said %+v, %+v, %v", key, len(got), found, info, cost, err)
	}
	if size > 100 {
		part := make([]byte, size/2)
		if _, _, err := c.ReadRange(t.Context(), key, part, 77, info.ETag, int64(size)); err != nil || !bytes.Equal(part, content[77:77+len(part)]) {
			t.Errorf("range of %q: %v", key, err)
		}
	}
	if err := c.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
}

// storeWithoutBucket: no operation takes a missing bucket for a missing object.
func storeWithoutBucket(t *testing.T, b rangeio.Backend) {
	t.Helper()
	ctx := t.Context()
	_, _, err := b.Open(ctx, "o", 0, 10, "")
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	_, err = b.Stat(ctx, "o")
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	rangeiotest.IsKind(t, b.List(ctx, "", func(rangeio.Object) error { return nil }), rangeio.NoBucket)
	for _, size := range []int{10, 20 << 20} {
		_, err = b.Put(ctx, "o", bytes.NewReader(make([]byte, size)))
		rangeiotest.IsKind(t, err, rangeio.NoBucket)
	}
	rangeiotest.IsKind(t, b.Delete(ctx, "o"), rangeio.NoBucket)
}

// startFakeGCSServer runs github.com/fsouza/fake-gcs-server, which checks the fake of these tests, and gives what makes
// an empty bucket.
func startFakeGCSServer(t *testing.T) func(t *testing.T, change func(*rangeio.GCSConfig)) rangeio.Backend {
	address := startEmulator(t, "fake-gcs-server", func(host, port string) []string {
		return []string{"-scheme", "http", "-host", host, "-port", port, "-backend", "memory", "-external-url", "http://" + host + ":" + port,
			"-public-host", host + ":" + port, "-log-level", "error"}
	})
	n := 0
	return func(t *testing.T, change func(*rangeio.GCSConfig)) rangeio.Backend {
		t.Helper()
		n++
		cfg := rangeio.GCSConfig{Bucket: fmt.Sprint("bucket-", n), Endpoint: "http://" + address, Anonymous: true}
		req, err := http.NewRequestWithContext(context.Background(), "POST", cfg.Endpoint+"/storage/v1/b?project=p", strings.NewReader(fmt.Sprintf(`{"name":%q}`, cfg.Bucket)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if res.StatusCode != 200 {
			t.Fatalf("bucket: %s", res.Status)
		}
		if change != nil {
			change(&cfg)
		}
		return openGCS(t, cfg)
	}
}

func openGCS(t *testing.T, cfg rangeio.GCSConfig) rangeio.Backend {
	t.Helper()
	b, err := rangeio.OpenGCS(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestFakeGCSServerAcceptance(t *testing.T) {
	open := startFakeGCSServer(t)
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend {
		return open(t, func(c *rangeio.GCSConfig) { c.Prefix = "x+y z/%2F-" })
	})
}

func TestFakeGCSServer(t *testing.T) {
	open := startFakeGCSServer(t)
	b := open(t, nil)
	for _, size := range []int{0, 1000, 16 << 20, 40<<20 + 1} {
		roundTrip(t, b, fmt.Sprint("of ", size), size)
	}
	storeWithoutBucket(t, open(t, func(c *rangeio.GCSConfig) { c.Bucket = "another" }))
}

var allContainerPermissions = sas.ContainerPermissions{Read: true, Write: true, Create: true, Delete: true, List: true, Add: true}

// privateKey makes a key in PEM.
func privateKey(t *testing.T) string {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

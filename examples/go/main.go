// Command go reads a range of a partition as raw record batches, still compressed, and decodes them with franz-go as a
// consumer would: the cheapest way to read for gateway and network, and each batch's CRC is checked here.
//
//	go run ./examples/go http://127.0.0.1:8080 codecs 0 700 800
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: go run ./examples/go URL TOPIC PARTITION START END")
	}
	base, topic := os.Args[1], os.Args[2]
	partition, start, end := number(os.Args[3]), number(os.Args[4]), number(os.Args[5])
	for next := start; next < end; {
		// Answers are bounded, so that each one's progress is in its headers.
		url := fmt.Sprintf("%s/topics/%s/partitions/%d/records?format=raw&offset=%d&end_offset=%d&max_bytes=%d", base, topic, partition, next, end, 1<<20)
		resp, err := http.Get(url)
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			log.Fatalf("%s: %s %v %s", url, resp.Status, err, body)
		}
		for _, r := range decode(topic, int32(partition), next, body) {
			if r.Offset < end { // the last batch comes whole
				fmt.Printf("%d\t%s\t%s\t%d bytes\n", r.Offset, r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z"), r.Key, len(r.Value))
			}
		}
		next = number(resp.Header.Get("X-Kafka-Next-Offset"))
		if why := resp.Header.Get("X-Kafka-End"); why != "limit" && next < end {
			log.Fatalf("ended with %s at offset %d", why, next)
		}
	}
}

// decode gives the records from an offset on; those of aborted transactions were left out by the gateway.
func decode(topic string, partition int32, offset int64, batches []byte) []*kgo.Record {
	fetched := kmsg.NewFetchResponseTopicPartition()
	fetched.Partition, fetched.RecordBatches = partition, batches
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: topic, Partition: partition, Offset: offset}, &fetched, kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		log.Fatal(got.Err)
	}
	return got.Records
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

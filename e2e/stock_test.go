//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A stock client is one Java process with Kafka's own admin client, producers and consumers (kafka/StockClient.java).
// Questions may be asked concurrently; they are answered one after the other.
type stock struct {
	process *process

	mu      sync.Mutex
	in      io.Writer
	answers *json.Decoder
}

func newStock(ctx context.Context, c *cluster, name string) (*stock, error) {
	cmd := c.java(ctx, controller, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "StockClient", strings.Join(c.bootstrap(), ","))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = theirs
	p, err := start(cmd, filepath.Join(c.dir, name+".output"))
	theirs.Close() // the child's copy is the only one left, so its end is the end of what can be read
	if err != nil {
		return nil, err
	}
	return &stock{process: p, in: in, answers: json.NewDecoder(out)}, nil
}

// A refusal is what the client threw.
type refusal struct {
	class, message string // the exception's class without its package
}

func (r *refusal) Error() string { return r.class + ": " + r.message }

// question are the fields of one; each kind of question takes some.
type question struct {
	Do         string            `json:"do"`
	Topic      string            `json:"topic,omitempty"`
	Partition  int               `json:"partition"`
	Replicas   [][]int           `json:"replicas,omitempty"`
	Configs    map[string]string `json:"configs,omitempty"`
	Before     int64             `json:"before,omitempty"`
	Leader     int               `json:"leader,omitempty"`
	Isolation  string            `json:"isolation,omitempty"`
	From       int64             `json:"from"`
	Partitions []offsetQueries   `json:"partitions,omitempty"`
	Producer   string            `json:"producer,omitempty"`
	Settings   map[string]string `json:"settings"`
	Records    []message         `json:"records,omitempty"`
}

type offsetQueries struct {
	Topic     string  `json:"topic"`
	Partition int     `json:"partition"`
	Queries   []int64 `json:"queries"`
}

func (s *stock) ask(q question, result any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Settings == nil {
		q.Settings = map[string]string{}
	}
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("stock client: %w", err)
	}
	answer := struct {
		Result         json.RawMessage
		Error, Message string
	}{}
	if err := s.answers.Decode(&answer); err != nil {
		return fmt.Errorf("stock client: %w", err)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s %s-%d: %w", q.Do, q.Topic, q.Partition, &refusal{answer.Error, answer.Message})
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// A message is what is produced. A nil key, value or header value is null.
type message struct {
	Timestamp int64    `json:"timestamp"` // ms
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

type header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// A record is what is read, by a consumer or from coldtap (with encoding=base64): both use the same words.
type record struct {
	Offset        int64    `json:"offset"`
	Timestamp     int64    `json:"timestamp"`
	TimestampType string   `json:"timestamp_type"`
	LeaderEpoch   int32    `json:"leader_epoch"`
	Key           []byte   `json:"key"`
	Value         []byte   `json:"value"`
	Headers       []header `json:"headers"`
}

// consume reads a partition from an offset (logStart: its first) to its end under the isolation level.
func (s *stock) consume(topic string, partition int, isolation string, from int64) (records []record, err error) {
	err = s.ask(question{Do: "consume", Topic: topic, Partition: partition, Isolation: isolation, From: from}, &records)
	return records, err
}

// Special offset queries of ListOffsets. Any other is a timestamp in milliseconds.
const (
	logEnd       = -1 // the high watermark, or for read_committed the last stable offset
	logStart     = -2
	localStart   = -4
	latestTiered = -5
)

// A found offset answers a query; all are -1 when there is none.
type found struct {
	Offset      int64 `json:"offset"`
	Timestamp   int64 `json:"timestamp"`
	LeaderEpoch int32 `json:"leader_epoch"`
}

// offsets asks the same number of queries of each partition.
func (s *stock) offsets(isolation string, partitions ...offsetQueries) (answers [][]found, err error) {
	err = s.ask(question{Do: "offsets", Isolation: isolation, Partitions: partitions}, &answers)
	return answers, err
}

func (s *stock) offset(topic string, partition int, query int64) (int64, error) {
	answers, err := s.offsets("read_uncommitted", offsetQueries{topic, partition, []int64{query}})
	if err != nil {
		return 0, err
	}
	return answers[0][0].Offset, nil
}

// A topicNow is what the cluster says of a topic now.
type topicNow struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions []struct {
		Leader int   `json:"leader"` // -1: none
		InSync []int `json:"in_sync"`
	} `json:"partitions"`
}

func (s *stock) topics() (map[string]topicNow, error) {
	var all []topicNow
	if err := s.ask(question{Do: "topics"}, &all); err != nil {
		return nil, err
	}
	named := map[string]topicNow{}
	for _, t := range all {
		named[t.Name] = t
	}
	return named, nil
}

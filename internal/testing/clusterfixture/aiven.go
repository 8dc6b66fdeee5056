package clusterfixture

import (
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"coldtap/segment"
)

//go:embed aiven.tar.zst
var aivenArchive []byte

// AivenSet is a cluster whose segments Aiven's plugin wrote. It has no Fetches and no ListOffsets, and its
// brokers reported no lineage; everything is in the tier, the last segment included.
type AivenSet struct {
	*Fixture
	Name   string            // "encrypted"
	Prefix string            // the plugin's key.prefix
	Chunk  int64             // its chunk.size, bytes
	Keys   map[string][]byte // private keys as PEM, by id
}

// aivenCluster is a set's cluster.json.
type aivenCluster struct {
	ClusterID string            `json:"cluster_id"`
	Plugin    map[string]string `json:"rsm_config"`
	Topics    []struct {
		Name       string       `json:"name"`
		ID         segment.UUID `json:"topic_id"`
		Partitions []struct {
			Number        int32 `json:"partition"`
			Start         int64 `json:"log_start_offset"`
			LocalStart    int64 `json:"earliest_local_offset"`
			LatestTiered  int64 `json:"latest_tiered_offset"`
			HighWatermark int64 `json:"high_watermark"`
		} `json:"partition_offsets"`
	} `json:"topics"`
}

var loadAiven = sync.OnceValues(unpackAiven)

// LoadAiven unpacks the sets, once for the process, and gives them by name.
func LoadAiven(tb testing.TB) []*AivenSet {
	tb.Helper()
	sets, err := loadAiven()
	if err != nil {
		tb.Fatal(err)
	}
	return sets
}

func unpackAiven() ([]*AivenSet, error) {
	sets := map[string]*AivenSet{}
	err := eachFile(aivenArchive, func(name string, b []byte) error {
		of, name, ok := strings.Cut(name, "/")
		if !ok {
			return errors.New("not of a set")
		}
		if sets[of] == nil {
			sets[of] = &AivenSet{Fixture: newFixture(), Name: of, Keys: map[string][]byte{}}
		}
		return sets[of].add(name, b)
	})
	byName := func(a, b *AivenSet) int { return strings.Compare(a.Name, b.Name) }
	return slices.SortedFunc(maps.Values(sets), byName), err
}

func (s *AivenSet) add(name string, b []byte) error {
	if strings.HasPrefix(name, "keys/") {
		id, _, _ := strings.Cut(path.Base(name), ".")
		s.Keys[id] = b
		return nil
	}
	if name == "cluster.json" {
		return s.describe(b)
	}
	return s.Fixture.add(name, b)
}

func (s *AivenSet) describe(b []byte) (err error) {
	var c aivenCluster
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	const option = "rsm.config."
	s.Prefix = c.Plugin[option+"key.prefix"]
	if s.Chunk, err = strconv.ParseInt(c.Plugin[option+"chunk.size"], 10, 64); err != nil {
		return err
	}
	s.Cluster.ClusterID, s.Cluster.Topics = c.ClusterID, map[string]*Topic{}
	for _, t := range c.Topics {
		topic := &Topic{ID: t.ID}
		for _, p := range t.Partitions {
			// No transaction is open in any of them.
			topic.Partitions = append(topic.Partitions, &Partition{
				Number: p.Number, Start: p.Start, LocalStart: p.LocalStart, LatestTiered: p.LatestTiered,
				HighWatermark: p.HighWatermark, LastStable: p.HighWatermark,
			})
		}
		s.Cluster.Topics[t.Name] = topic
	}
	s.Cluster.nameTopics()
	return nil
}

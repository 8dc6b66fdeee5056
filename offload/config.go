package offload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"

	"coldtap/catalog"
	"coldtap/internal/errkind"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// Layout is where copies go; *native.Layout is one.
type Layout interface {
	// Put writes all objects of a segment under its id, overwriting, and returns nil only when they are durable. log
	// may be read by several goroutines; its bytes must have the SHA-256 (hex) logSHA256, else Put fails.
	Put(ctx context.Context, clusterID string, seg *tier.Segment, log rangeio.Content, logSHA256 string, files *segment.Files) error
	// Delete removes them; silent about those that are missing.
	Delete(ctx context.Context, seg *tier.Segment) error
	// Unknown looks for a segment of a partition that the store holds whole and that known denies; nil = none. An error of
	// rangeio.Withheld: none of those that the store gives.
	Unknown(ctx context.Context, topic string, id tier.PartitionID, known func(name layout.Name) bool) (*tier.Segment, error)
}

// Config says what Once copies, and where to.
type Config struct {
	// LogDirs are the log directories of one stopped broker.
	LogDirs []string
	// Include and Exclude are globs (path.Match) of topic names; nil means {"*"} and {"__*"}. A topic is copied when
	// one of Include matches and none of Exclude. Kafka's internal topics never are.
	Include, Exclude []string
	// SkipDamaged goes on behind a damaged segment, or behind offsets that the broker has deleted already, and
	// records the hole in the catalog. The run counts as failed all the same. Any later run that finds a sound segment
	// for a hole copies it.
	SkipDamaged bool
	// SealActive also copies the active segment, up to the high watermark and the last stable offset, for a cluster
	// that is being retired. Should the log grow all the same, a later run copies the segment again from its base.
	SealActive bool
	// Rate bounds the upload in bytes per second; 0 = unlimited.
	Rate int64

	Catalog catalog.Writer
	Layout  Layout
	// Progress gets each Event; may be nil. Calls come one at a time, from changing goroutines, and the copy waits for
	// them.
	Progress func(Event)
	// Logger gets the same as debug lines; nil = none.
	Logger *slog.Logger
	// Registerer gets the metrics; nil = none. It may be the same in each run.
	Registerer prometheus.Registerer
}

// withDefaults fills what is left out, or gives an *Error of kind BadConfig that names everything wrong.
func (c Config) withDefaults() (Config, error) {
	var wrong []error
	if len(c.LogDirs) == 0 {
		wrong = append(wrong, errors.New("no log directory"))
	}
	if c.Catalog == nil || c.Layout == nil {
		wrong = append(wrong, errors.New("no catalog or no layout"))
	}
	if c.Rate < 0 {
		wrong = append(wrong, fmt.Errorf("rate %d is negative", c.Rate))
	}
	if c.Include == nil {
		c.Include = []string{"*"}
	}
	if c.Exclude == nil {
		c.Exclude = []string{"__*"}
	}
	for _, globs := range [][]string{c.Include, c.Exclude} {
		for _, glob := range globs {
			if _, err := path.Match(glob, "topic"); err != nil {
				wrong = append(wrong, fmt.Errorf("topic glob %q: %w", glob, err))
			}
		}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if len(wrong) > 0 {
		return c, &Error{Kind: BadConfig, Op: "configure", Err: errors.Join(wrong...)}
	}
	return c, nil
}

// internalTopics are those that Kafka itself never tiers.
var internalTopics = map[string]bool{
	"__consumer_offsets": true, "__transaction_state": true, "__share_group_state": true,
	"__remote_log_metadata": true, "__cluster_metadata": true,
}

// wants says whether a topic is to be copied, else why not.
func (c *Config) wants(topic string) (Reason, bool) {
	if internalTopics[topic] {
		return Internal, false
	}
	if !matches(c.Include, topic) || matches(c.Exclude, topic) {
		return Excluded, false
	}
	return "", true
}

func matches(globs []string, topic string) bool {
	for _, glob := range globs {
		if ok, _ := path.Match(glob, topic); ok {
			return true
		}
	}
	return false
}

// Kind classifies an Error.
type Kind uint8

const (
	BadConfig    Kind = iota + 1 // the configuration cannot work
	InUse                        // a broker holds a log directory's lock
	NotLogDir                    // no readable log directory of a Kafka broker, or one of another cluster or broker than the rest
	Conflict                     // two directories hold the same partition
	WrongCluster                 // the catalog belongs to another cluster
	Untracked                    // the store holds copies that the catalog does not know
	Unavailable                  // the catalog, or a listing of the store, failed before anything was copied
	Canceled                     // the caller's context ended
)

var kindNames = [...]string{
	BadConfig: "bad configuration", InUse: "in use", NotLogDir: "no log directory", Conflict: "conflict",
	WrongCluster: "wrong cluster", Untracked: "untracked", Unavailable: "unavailable", Canceled: "canceled",
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is why a run did not start, or did not reach its end. Failures of one partition are in the Report instead.
type Error struct {
	Kind Kind
	Op   string
	Dir  string // the log directory it concerns, if one
	Err  error
}

func (e *Error) Error() string {
	if e.Dir != "" {
		return e.Op + " " + e.Dir + ": " + e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Retriable says whether the same run may succeed later without a change of its configuration.
func (e *Error) Retriable() bool {
	return e.Kind == InUse || e.Kind == Unavailable || e.Kind == Canceled
}

// Package scriptedcluster is a live cluster (catalog/observe.Cluster) that answers what a test has said, without
// brokers.
package scriptedcluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
)

// ID is the cluster's id.
const ID = "stand"

// Cluster is what a test says of a cluster. The zero value is one of which nothing is known. Its methods may be called
// concurrently.
type Cluster struct {
	mu      sync.Mutex
	view    *cluster.View
	away    error
	hung    []int32 // brokers that lead and do not answer
	denied  []segment.UUID
	said    bool           // which topics there are; else nothing is known of any
	watched []segment.UUID // ascending
	asked   int
}

// View is the newest one, nil before the first.
func (c *Cluster) View() *cluster.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// Refresh makes a view of now: bounds are from now where a leader answers, and what is watched is missing where it is
// denied or not there.
func (c *Cluster) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.away != nil {
		return c.away
	}
	v := cluster.View{}
	if c.view != nil {
		v = *c.view
	}
	v.At = time.Now()
	v.Topics = slices.Clone(v.Topics)
	for i := range v.Topics {
		t := &v.Topics[i]
		t.Partitions = slices.Clone(t.Partitions)
		for j := range t.Partitions {
			if p := &t.Partitions[j]; p.Leader >= 0 && !slices.Contains(c.denied, t.ID) && !slices.Contains(c.hung, p.Leader) {
				p.BoundsAt = v.At
			}
		}
	}
	v.Missing = map[segment.UUID]cluster.Absence{}
	for _, id := range c.watched {
		if slices.Contains(c.denied, id) {
			v.Missing[id] = cluster.TopicDenied
		} else if _, ok := v.Topic(id); !ok && c.said {
			v.Missing[id] = cluster.TopicGone
		}
	}
	c.view = &v
	return ctx.Err()
}

// RefreshOnly is Refresh.
func (c *Cluster) RefreshOnly(ctx context.Context, _ ...cluster.PartitionID) error {
	return c.Refresh(ctx)
}

// Watch replaces what is watched.
func (c *Cluster) Watch(topics map[segment.UUID]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = slices.SortedFunc(maps.Keys(topics), func(a, b segment.UUID) int { return slices.Compare(a[:], b[:]) })
}

// Watched lists the topics that are watched, ascending.
func (c *Cluster) Watched() []segment.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watched
}

// Asked counts the calls of Refresh and RefreshOnly.
func (c *Cluster) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// SetAway makes calls fail; nil ends that.
func (c *Cluster) SetAway(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = err
}

// Hang says which brokers lead and do not answer.
func (c *Cluster) Hang(brokers ...int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hung = brokers
}

// Deny says which topics the user may not describe.
func (c *Cluster) Deny(topics ...segment.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = topics
}

// Say says which topics there are, and gives the view.
func (c *Cluster) Say(topics ...cluster.Topic) *cluster.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = true
	c.view = &cluster.View{ClusterID: ID, At: time.Now(), Topics: topics}
	return c.view
}

package export

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"coldtap/segment"

	"golang.org/x/sync/errgroup"
)

// topicAnswer is what GET /topics/{topic} says.
type topicAnswer struct {
	Name       string `json:"name"`
	TopicID    string `json:"topic_id"`
	Partitions []struct {
		Partition int32  `json:"partition"`
		LogStart  *int64 `json:"log_start_offset"`
		TieredEnd *int64 `json:"tiered_end_offset"`
		Holes     []struct {
			From   int64  `json:"from_offset"`
			To     int64  `json:"to_offset"`
			Reason string `json:"reason"`
		} `json:"holes"`
	} `json:"partitions"`
}

func partitionPath(topic string, partition int32) string {
	return fmt.Sprintf("/topics/%s/partitions/%d", url.PathEscape(topic), partition)
}

func (e *export) topic(ctx context.Context) (*topicAnswer, error) {
	t := new(topicAnswer)
	err := e.retry(ctx, func() error { return e.client.getJSON(ctx, "/topics/"+url.PathEscape(e.options.Topic), nil, t) })
	if err != nil {
		return nil, err
	}
	id, err := segment.ParseUUID(t.TopicID)
	if err != nil || id.IsZero() || t.Name != e.options.Topic {
		return nil, fmt.Errorf("the gateway's answer about topic %s is about %q with the id %q", e.options.Topic, printable(t.Name), printable(t.TopicID))
	}
	return t, nil
}

// clusterID asks for the cluster's id; empty when the gateway has none to tell.
func (e *export) clusterID(ctx context.Context) (string, error) {
	var list struct {
		Data []struct {
			ClusterID string `json:"cluster_id"`
		} `json:"data"`
	}
	err := e.retry(ctx, func() error { return e.client.getJSON(ctx, "/v3/clusters", nil, &list) })
	if p, ok := errors.AsType[*problem](err); ok && !p.passes() {
		return "", nil
	}
	if err != nil || len(list.Data) != 1 {
		return "", err
	}
	return printable(list.Data[0].ClusterID), nil
}

// sameTopic refuses to go on with a topic that was deleted and created anew, or with another cluster's.
func (e *export) sameTopic(ctx context.Context, m *Manifest) error {
	t, err := e.topic(ctx)
	if err != nil {
		return err
	}
	if t.TopicID != m.TopicID {
		return badOption("%s holds an export of the topic %s with the id %s; the gateway's has the id %s: it was created anew. Give another folder",
			e.options.Dir, m.Topic, m.TopicID, t.TopicID)
	}
	cluster, err := e.clusterID(ctx)
	if err != nil {
		return err
	}
	if cluster != "" && m.ClusterID != "" && cluster != m.ClusterID {
		return badOption("%s holds an export of cluster %s, and the gateway's is cluster %s; give another folder", e.options.Dir, m.ClusterID, cluster)
	}
	return nil
}

// plan fixes what is exported.
func (e *export) plan(ctx context.Context) (*Manifest, error) {
	t, err := e.topic(ctx)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Version: manifestVersion, Topic: t.Name, TopicID: t.TopicID, Asked: e.options.asked()}
	if m.ClusterID, err = e.clusterID(ctx); err != nil {
		return nil, err
	}
	there := make(map[int32]bool)
	for i := range t.Partitions {
		number := t.Partitions[i].Partition
		if number < 0 || there[number] {
			return nil, fmt.Errorf("the gateway lists partition %d twice or wrongly", number)
		}
		there[number] = true
	}
	for _, p := range e.options.Partitions {
		if !there[p] {
			return nil, badOption("topic %s has no partition %d in the tier", t.Name, p)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(e.options.Parallel)
	for i := range t.Partitions {
		tp := &t.Partitions[i]
		if e.options.Partitions != nil && !slices.Contains(e.options.Partitions, tp.Partition) {
			continue
		}
		p := &Partition{Partition: tp.Partition, Files: []File{}}
		m.Partitions = append(m.Partitions, p)
		group.Go(func() error {
			// Nothing was tiered yet where bounds are unknown.
			start, end := max(value(tp.LogStart), 0), max(value(tp.TieredEnd), 0)
			if err := e.planPartition(ctx, p, t.TopicID, start, max(start, end)); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			for _, h := range tp.Holes {
				if h.From < h.To && h.To > p.StartOffset && (p.EndOffset == nil || h.From < *p.EndOffset) {
					p.Holes = append(p.Holes, Hole{h.From, h.To, "given up when it was copied: " + printable(h.Reason)})
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if len(m.Partitions) == 0 {
		return nil, fmt.Errorf("topic %s has no partition in the tier", t.Name)
	}
	slices.SortFunc(m.Partitions, func(a, b *Partition) int { return int(a.Partition - b.Partition) })
	return m, nil
}

func value(p *int64) int64 {
	if p == nil {
		return -1
	}
	return *p
}

// planPartition fixes a partition's range; the tier has [logStart, tieredEnd) of it.
func (e *export) planPartition(ctx context.Context, p *Partition, topicID string, logStart, tieredEnd int64) (err error) {
	switch from := e.options.From; from.kind {
	case atEarliest:
		p.StartOffset = logStart
	case atLatest:
		p.StartOffset = tieredEnd
	case atOffset:
		p.StartOffset = from.value
	case atTime:
		if p.StartOffset, err = e.offsetAt(ctx, p.Partition, topicID, from.value); err != nil {
			return err
		}
		if p.StartOffset < 0 {
			p.StartOffset = tieredEnd
		}
	}
	end := int64(-1)
	switch to := e.options.To; to.kind {
	case atEarliest:
		end = logStart
	case atLatest:
		end = tieredEnd
	case atOffset:
		end = to.value
	case atTime:
		stop := later(to.value, e.options.Lateness)
		p.StopTimestamp = &stop
		if end, err = e.offsetAt(ctx, p.Partition, topicID, stop); err != nil {
			return err
		}
		if end < p.StartOffset {
			// None is in the tier yet, or the first one lies before the start and says nothing about what follows.
			end = -1
		}
	}
	if end >= 0 {
		end = max(end, p.StartOffset)
		p.EndOffset = &end
	}
	p.NextOffset = p.StartOffset
	return nil
}

// offsetAt is the offset of the first record at or after a time; -1 when the tier has none.
func (e *export) offsetAt(ctx context.Context, partition int32, topicID string, ms int64) (int64, error) {
	var at struct {
		Offset *int64 `json:"offset"`
	}
	query := url.Values{"timestamp": {Time(ms).String()}, "isolation_level": {e.options.Isolation}, "topic_id": {topicID}}
	err := e.retry(ctx, func() error {
		return e.client.getJSON(ctx, partitionPath(e.options.Topic, partition)+"/offsets", query, &at)
	})
	if err == nil && (at.Offset == nil || *at.Offset < -1) {
		err = errors.New("the gateway's answer about a time names no offset")
	}
	if err != nil {
		return -1, err
	}
	return *at.Offset, nil
}

// retry asks until there is an answer, or a refusal that no waiting changes.
func (e *export) retry(ctx context.Context, ask func() error) error {
	for tries := 1; ; tries++ {
		err := ask()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if final(err) || tries >= e.options.tuning.tries {
			return err
		}
		if !e.pause(ctx, tries, err) {
			return ctx.Err()
		}
	}
}

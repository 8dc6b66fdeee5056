package tier

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"coldtap/segment"
)

// Topic is a topic that the tier holds something of.
type Topic struct {
	ID         segment.UUID
	Name       string  // empty while only its partitions are known
	Partitions []int32 // ascending; those with known bounds or segments
}

// topicFacts is what the changes said of one topic id. It outlives the topic's partitions, so that a name that comes
// first is known later.
type topicFacts struct {
	name   string
	newest int64 // ms, of its latest event
}

// topicSet is the topics of a snapshot.
type topicSet struct {
	chosen []Topic // by name, one for each name
	byID   map[segment.UUID]Topic
	rivals map[string]bool // names that several live ids carry
}

// newTopicSet groups the listed partitions. Of several live ids with one name the one with the newest event is chosen:
// a topic that was deleted and re-created is another one, and the old one's last events are its deletes. A name that
// has an owner is never given to another.
func newTopicSet(partitions *cowList[*Partition], facts map[segment.UUID]*topicFacts, owners map[string]segment.UUID) *topicSet {
	set := &topicSet{byID: make(map[segment.UUID]Topic), rivals: make(map[string]bool)}
	var live []Topic
	for p := range partitions.all() {
		if !p.isListed() {
			continue
		}
		if n := len(live); n == 0 || live[n-1].ID != p.id.Topic {
			t := Topic{ID: p.id.Topic}
			if f := facts[t.ID]; f != nil {
				t.Name = f.name
			}
			live = append(live, t)
		}
		t := &live[len(live)-1]
		t.Partitions = append(t.Partitions, p.id.Partition)
	}
	for _, t := range live {
		set.byID[t.ID] = t
	}
	// Topics without a name have no facts, and their order does not matter.
	slices.SortFunc(live, func(a, b Topic) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 || a.Name == "" {
			return c
		}
		return cmp.Or(cmp.Compare(facts[b.ID].newest, facts[a.ID].newest), bytes.Compare(b.ID[:], a.ID[:]))
	})
	for _, t := range live {
		owner, owned := owners[t.Name]
		switch n := len(set.chosen); {
		case t.Name == "" || owned && owner != t.ID:
		case n > 0 && set.chosen[n-1].Name == t.Name:
			set.rivals[t.Name] = true
		default:
			set.chosen = append(set.chosen, t)
		}
	}
	return set
}

func (s *topicSet) byName(name string) (Topic, bool) {
	i, ok := slices.BinarySearchFunc(s.chosen, name, func(t Topic, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return Topic{}, false
	}
	return s.chosen[i], true
}

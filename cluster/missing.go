package cluster

import (
	"context"
	"errors"
	"slices"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Absence says why a watched topic is missing from the list of all topics.
type Absence uint8

const (
	TopicGone    Absence = iota + 1 // two answers say that no topic has the id
	TopicDenied                     // the principal may not describe it
	TopicUnclear                    // the brokers do not say: one answer contradicts the list, or the other one, or none came
)

const (
	// repeatRounds is how often in a row the same answer is asked for again in the next round; then it is in every tenth
	// one. A topic that is back, because a right was granted for example, is in the list of all topics at once.
	repeatRounds  = 3
	skippedRounds = 9

	idVersion   = 12 // of Metadata: asks for a topic by its id alone (KIP-516)
	loggedNames = 10 // denied topics in one line
)

// absent is a watched topic that is missing, from round to round.
type absent struct {
	why  Absence
	same int // rounds in a row that got this answer
	skip int // rounds in which it is not asked for
}

// requestMissing asks for the watched topics that the list of all topics left out. A list does not say why: a broker
// that lags lists less, and so does every broker when the right to describe a topic is missing.
func (r *rounds) requestMissing(ctx context.Context, c *collected, last *View, watched map[segment.UUID]string, version int16) (map[segment.UUID]Absence, *Error) {
	var due []segment.UUID
	missing := make(map[segment.UUID]*absent)
	for id := range watched {
		if c.ids[id] {
			continue
		}
		m := r.missing[id]
		if m == nil {
			m = &absent{}
		}
		missing[id] = m
		if m.skip > 0 {
			m.skip--
			continue
		}
		due = append(due, id)
	}
	known := map[segment.UUID]*Topic{} // as the View before has them
	if last != nil && len(missing) > 0 {
		for i := range last.Topics {
			known[last.Topics[i].ID] = &last.Topics[i]
		}
	}
	answers, err := r.absences(ctx, c, due, known, watched, version)
	if err != nil { // the list is good all the same
		r.noteFailure(err)
		answers = make(map[segment.UUID]Absence, len(due))
		for _, id := range due {
			answers[id] = TopicUnclear
		}
	}
	r.missing = missing
	reasons := make(map[segment.UUID]Absence, len(missing))
	for _, id := range due {
		m := missing[id]
		if c.ids[id] {
			delete(missing, id) // it was answered like one of the list
			continue
		}
		if why := answers[id]; why != m.why {
			m.why, m.same = why, 0
		}
		if m.same++; m.same >= repeatRounds && m.why != TopicUnclear {
			m.skip = skippedRounds
		}
	}
	for id, m := range missing {
		reasons[id] = m.why
		if m.why == TopicGone {
			continue
		}
		old := known[id]
		if old != nil && !c.names[old.Name] {
			c.put(*old) // it stays in the View, and its partitions count as unanswered one by one
		} else if r.unanswered++; m.why == TopicDenied {
			r.refused++
		}
		if m.why == TopicUnclear {
			r.noteFailure(asError("metadata of topic "+label(watched[id], id), kerr.UnknownTopicID))
		}
	}
	r.reportDenied(watched)
	return reasons, nil
}

// absences asks for the ids, and once more for those that are newly answered as unknown: a topic that was just created
// is not known to every broker at once. The second request goes to another broker if there is one.
func (r *rounds) absences(ctx context.Context, c *collected, due []segment.UUID, known map[segment.UUID]*Topic, watched map[segment.UUID]string,
	version int16) (map[segment.UUID]Absence, *Error) {
	if len(due) == 0 {
		return nil, nil
	}
	ask := func(ids []segment.UUID) (map[segment.UUID]Absence, *Error) {
		if version >= idVersion {
			return r.absencesByID(ctx, c, ids)
		}
		return r.absencesByName(ctx, c, ids, known, watched)
	}
	answers, err := ask(due)
	if err != nil {
		return nil, err
	}
	var again []segment.UUID
	for _, id := range due {
		if m := r.missing[id]; answers[id] == TopicGone && (m == nil || m.why != TopicGone) {
			again = append(again, id)
		}
	}
	if len(again) == 0 {
		return answers, nil
	}
	second, err := ask(again)
	if err != nil {
		return nil, err
	}
	for _, id := range again {
		answers[id] = second[id]
	}
	return answers, nil
}

// absencesByID gives an answer for each id that is still missing after it.
func (r *rounds) absencesByID(ctx context.Context, c *collected, ids []segment.UUID) (map[segment.UUID]Absence, *Error) {
	answers := make(map[segment.UUID]Absence, len(ids))
	req := kmsg.NewPtrMetadataRequest()
	for _, id := range ids {
		answers[id] = TopicUnclear
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = id
		req.Topics = append(req.Topics, rt)
	}
	resp, err := r.brokers.metadata(ctx, req)
	if err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if _, ok := answers[t.TopicID]; !ok {
			r.metrics.reject(rejectRepeated)
			continue
		}
		r.absence(c, answers, t.TopicID, t)
	}
	return answers, nil
}

// absencesByName is for brokers that know no ids in requests. They deny a name whether or not there is a topic of it.
func (r *rounds) absencesByName(ctx context.Context, c *collected, ids []segment.UUID, known map[segment.UUID]*Topic, watched map[segment.UUID]string) (
	map[segment.UUID]Absence, *Error) {
	answers := make(map[segment.UUID]Absence, len(ids))
	byName := map[string]segment.UUID{}
	req := kmsg.NewPtrMetadataRequest()
	for _, id := range ids {
		name := watched[id]
		if old := known[id]; old != nil {
			name = old.Name
		}
		answers[id] = TopicUnclear
		if c.names[name] {
			answers[id] = TopicGone // another topic has the name
			continue
		}
		if _, twice := byName[name]; twice || !segment.LegalTopic(name) {
			continue // one id of a name is asked for in this round, the other in the next
		}
		byName[name] = id
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
	}
	if len(req.Topics) == 0 {
		return answers, nil
	}
	resp, err := r.brokers.metadata(ctx, req)
	if err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil {
			r.metrics.reject(rejectName)
			continue
		}
		id, ok := byName[*t.Topic]
		if !ok {
			r.metrics.reject(rejectRepeated)
			continue
		}
		r.absence(c, answers, id, t)
		if c.names[*t.Topic] && !c.ids[id] {
			answers[id] = TopicGone
		}
	}
	return answers, nil
}

// absence takes over what a broker answers for one topic that was asked for.
func (r *rounds) absence(c *collected, answers map[segment.UUID]Absence, id segment.UUID, t *kmsg.MetadataResponseTopic) {
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case err == nil:
		c.add([]kmsg.MetadataResponseTopic{*t})
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InvalidTopicException):
		answers[id] = TopicGone
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		answers[id] = TopicDenied
	default:
		answers[id] = TopicUnclear
	}
}

// reportDenied counts the denied topics, and logs those that were not denied before.
func (r *rounds) reportDenied(watched map[segment.UUID]string) {
	var denied, granted []string
	count := 0
	for id, m := range r.missing {
		if m.why != TopicDenied {
			continue
		}
		count++
		if !r.denied[id] {
			r.denied[id] = true
			denied = append(denied, label(watched[id], id))
		}
	}
	for id := range r.denied {
		if m := r.missing[id]; m == nil || m.why == TopicGone {
			delete(r.denied, id)
			if _, ok := watched[id]; ok && m == nil {
				granted = append(granted, label(watched[id], id))
			}
		}
	}
	r.metrics.denied.Set(float64(count))
	if len(denied) > 0 {
		r.log.Warn("the cluster denies DESCRIBE on watched topics", "topics", firstNames(denied), "count", len(denied))
	}
	if len(granted) > 0 {
		r.log.Info("the cluster lets watched topics be described again", "topics", firstNames(granted), "count", len(granted))
	}
}

func firstNames(names []string) []string {
	slices.Sort(names)
	return names[:min(len(names), loggedNames)]
}

// label names a topic in logs and errors.
func label(name string, id segment.UUID) string {
	if name == "" {
		return id.String()
	}
	return name
}

// Package episode decides when trouble that goes on is worth a log line: once per kind of trouble while it lasts, after
// it has outlived what passes by itself, and once more when it is over.
package episode

import "time"

// Episode is trouble of one thing (a cluster, a file) from its first failure to the next success. The zero value logs
// the first failure; it is not safe for concurrent use.
type Episode struct {
	// Patience is how long trouble that may pass by itself lasts before it is logged. The first failure is not logged
	// then, since it only starts the clock.
	Patience time.Duration

	since  time.Time
	logged []string // kinds
}

// Failed notes a failure, and says whether to log it: the first of its kind in the episode, which is over with
// patience. Kinds are few and fixed words, never an error's text: that names another address each time. passing says
// that the failure may pass by itself.
func (e *Episode) Failed(now time.Time, kind string, passing bool) bool {
	if e.since.IsZero() {
		e.since = now
	}
	if passing && now.Sub(e.since) < e.Patience {
		return false
	}
	for _, k := range e.logged {
		if k == kind {
			return false
		}
	}
	e.logged = append(e.logged, kind)
	return true
}

// Over ends the episode, if there is one. logged says that a line was logged about it, so that another one is due.
func (e *Episode) Over(now time.Time) (lasted time.Duration, logged bool) {
	if e.since.IsZero() {
		return 0, false
	}
	lasted, logged = now.Sub(e.since), len(e.logged) > 0
	e.since, e.logged = time.Time{}, nil
	return lasted, logged
}

package episode

import (
	"sync"
	"time"
)

// Seldom says which of the lines that may repeat are due: one of a key in each Every. Methods may be called
// concurrently; it must not be copied after the first call.
type Seldom[K comparable] struct {
	Every time.Duration
	// Most is how many keys are remembered before all are forgotten; 0: any number, where keys are few and fixed.
	Most int

	mu sync.Mutex
	at map[K]time.Time
}

// Due says that a line is due, and counts it as logged.
func (s *Seldom[K]) Due(key K, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.at[key]; ok && now.Sub(at) < s.Every {
		return false
	}
	if s.at == nil || s.Most > 0 && len(s.at) >= s.Most {
		s.at = make(map[K]time.Time)
	}
	s.at[key] = now
	return true
}

// Forget makes every line due again.
func (s *Seldom[K]) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.at)
}

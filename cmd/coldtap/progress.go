package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"coldtap/offload"

	"golang.org/x/term"
)

// line is one line of a terminal that is rewritten while something long goes on. Elsewhere nothing of it is shown.
type line struct {
	out      io.Writer
	terminal bool
	drawn    time.Time
}

func newLine(out io.Writer) *line { return &line{out: out, terminal: isTerminal(out)} }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	// redraw bounds how often the line is rewritten.
	redraw = 100 * time.Millisecond
	// clearLine returns to the line's start and erases it (ANSI EL).
	clearLine = "\r\x1b[K"
)

// show rewrites the line, unless it was rewritten just now.
func (l *line) show(format string, args ...any) {
	if l.terminal && time.Since(l.drawn) >= redraw {
		l.write(fmt.Sprintf(format, args...))
	}
}

// write rewrites the line with as much of a text as fits: what wraps could not be erased.
func (l *line) write(text string) {
	l.drawn = time.Now()
	if width, _, err := term.GetSize(int(l.out.(*os.File).Fd())); err == nil && width > 0 {
		text = firstColumns(text, width-1)
	}
	fmt.Fprint(l.out, clearLine, text)
}

// firstColumns cuts a text to a number of characters.
func firstColumns(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// end leaves the terminal's line clean.
func (l *line) end() {
	if l.terminal {
		fmt.Fprint(l.out, clearLine)
	}
}

// progress shows what an offload is doing: the line on a terminal, a plain line per finished segment elsewhere.
type progress struct{ *line }

func newProgress(out io.Writer) progress { return progress{newLine(out)} }

func (p progress) event(e offload.Event) {
	moving := e.Step == offload.StepCopying
	switch {
	case !p.terminal && !moving:
		fmt.Fprintln(p.out, describe(e))
	case !p.terminal, moving && time.Since(p.drawn) < redraw:
	default:
		text := bar(e.Done, e.Total)
		if e.Total > 0 {
			text += fmt.Sprintf("%s of %s ", size(min(e.Done, e.Total)), size(e.Total))
		}
		p.write(text + describe(e))
	}
}

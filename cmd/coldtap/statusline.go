package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// statusLine is one line of a terminal that is rewritten while something long goes on. Elsewhere nothing of it is
// shown.
type statusLine struct {
	out      io.Writer
	terminal bool
	drawn    time.Time
}

func newStatusLine(out io.Writer) *statusLine {
	return &statusLine{out: out, terminal: isTerminal(out)}
}

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
func (l *statusLine) show(format string, args ...any) {
	if l.terminal && time.Since(l.drawn) >= redraw {
		l.write(fmt.Sprintf(format, args...))
	}
}

// write rewrites the line with as much of a text as fits: what wraps could not be erased.
func (l *statusLine) write(text string) {
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
func (l *statusLine) end() {
	if l.terminal {
		fmt.Fprint(l.out, clearLine)
	}
}

// barWidth is the progress bar's width in characters.
const barWidth = 24

// bar draws how far something is; empty while it is not known how much there is.
func bar(done, all int64) string {
	if all <= 0 {
		return ""
	}
	filled := int(barWidth * min(done, all) / all)
	return fmt.Sprintf("[%s%s] ", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled))
}

// size writes bytes for people, to three digits.
func size(n int64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for value >= 1024 && i < len(units)-1 {
		value /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + units[i]
}

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"coldtap/offload"

	"golang.org/x/sys/unix"
)

// progress shows what an offload is doing: one line that is rewritten on a terminal, a plain line per finished segment
// elsewhere.
type progress struct {
	out      io.Writer
	terminal bool
	drawn    time.Time
}

// redraw bounds how often the line is rewritten.
const redraw = 100 * time.Millisecond

func newProgress(env environment) *progress {
	return &progress{out: env.err, terminal: isTerminal(env.err)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// clearLine returns to the line's start and erases it (ANSI EL).
const clearLine = "\r\x1b[K"

func (p *progress) event(e offload.Event) {
	moving := e.Step == offload.StepCopying
	if !p.terminal {
		if !moving {
			fmt.Fprintln(p.out, describe(e))
		}
		return
	}
	if moving && time.Since(p.drawn) < redraw {
		return
	}
	p.drawn = time.Now()
	fmt.Fprint(p.out, clearLine, bar(e.Done, e.Total))
	if e.Total > 0 {
		fmt.Fprintf(p.out, "%s of %s ", size(min(e.Done, e.Total)), size(e.Total))
	}
	fmt.Fprint(p.out, describe(e))
}

// end leaves the terminal's line clean.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.out, clearLine)
	}
}

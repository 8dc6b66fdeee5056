package inspect

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// row is something to show: a JSON value by its fields, or cells of a table.
type row interface {
	header() string // tab-separated; another header begins another table
	cells() []string
}

// Output writes rows as a table or as JSON lines. Not for concurrent use.
type Output struct {
	w      io.Writer
	json   *json.Encoder
	table  *tabwriter.Writer
	header string
	rows   int
	err    error
}

// flushEvery bounds the rows that a table holds in memory to align them.
const flushEvery = 256

// NewOutput writes to w: JSON lines when asJSON, else tables.
func NewOutput(w io.Writer, asJSON bool) *Output {
	o := &Output{w: w}
	if asJSON {
		o.json = json.NewEncoder(w)
		o.json.SetEscapeHTML(false)
	} else {
		o.table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	}
	return o
}

// add shows a row. The first error sticks, and Close gives it too.
func (o *Output) add(r row) error {
	if o.err != nil {
		return o.err
	}
	if o.json != nil {
		o.err = o.json.Encode(r)
		return o.err
	}
	if h := r.header(); h != o.header {
		o.flush()
		o.header = h
		o.line(strings.Split(h, "\t"))
	}
	o.line(r.cells())
	if o.rows++; o.rows%flushEvery == 0 {
		o.flush()
	}
	return o.err
}

// Note shows a line for people; JSON goes without it.
func (o *Output) Note(text string) {
	if o.json == nil {
		o.flush()
		o.header = ""
		o.write(o.w, Printable(text)+"\n")
	}
}

func (o *Output) line(cells []string) {
	for i := range cells {
		cells[i] = Printable(cells[i])
	}
	o.write(o.table, strings.TrimRight(strings.Join(cells, "\t"), "\t")+"\n")
}

func (o *Output) write(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil && o.err == nil {
		o.err = err
	}
}

func (o *Output) flush() {
	if err := o.table.Flush(); err != nil && o.err == nil {
		o.err = err
	}
}

// Close writes what is held back.
func (o *Output) Close() error {
	if o.json == nil {
		o.flush()
	}
	return o.err
}

// Printable makes text that came from a store or a file safe for a terminal: quoted when anything in it is not
// printable.
func Printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// maxShown is how many bytes of a key or value a table shows.
const maxShown = 64

// excerpt shows bytes: the text they are, quoted, cut to maxShown.
func excerpt(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > maxShown:
		return strconv.Quote(string(b[:maxShown])) + "…" + strconv.Itoa(len(b)) + " bytes"
	}
	return strconv.Quote(string(b))
}

func number[T int | int8 | int16 | int32 | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// moment shows milliseconds since 1970; negative ones mean that there is no time.
func moment(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func mark(is bool, name string) string {
	if is {
		return name
	}
	return "-"
}

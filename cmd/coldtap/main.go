// Command coldtap reads Kafka's history from an object store, without the brokers.
//
//	coldtap demo                              everything on embedded parts, with a sample of real segments
//	coldtap offload --standalone --once …     copies closed segments of a stopped broker into the tier
//	coldtap serve --config coldtap.yaml       answers reads over HTTP
//
// Exit codes: 0 fine, 1 failed while running, 2 wrong usage or configuration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// command is one sub-command. run parses its own arguments.
type command struct {
	name    string
	summary string
	run     func(ctx context.Context, env environment, args []string) error
}

// environment is what a command may touch of the outside, so that tests can run commands in-process.
type environment struct {
	out, err io.Writer
}

func commands() []command {
	return []command{
		{"demo", "serve a sample of real Kafka segments; no set-up needed", runDemo},
		{"serve", "answer reads of the tier over HTTP", runServe},
		{"offload", "copy closed segments of a stopped broker into the tier", runOffload},
		{"inspect", "look at metadata, objects and segment files, and verify them", runInspect},
		{"bench", "measure this machine: ratios and counts, not seconds", runBench},
		{"version", "print version, commit and Go version", runVersion},
	}
}

// usageError is wrong usage or configuration: exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	// The first signal starts a graceful end; the second one, with the handler gone, ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, environment{out: os.Stdout, err: os.Stderr}, os.Args[1:]))
}

func run(ctx context.Context, env environment, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		printHelp(env.out)
		if len(args) == 0 {
			return exitUsage
		}
		return exitOK
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, env, args[1:])
		var wrong usageError
		switch {
		case err == nil, errors.Is(err, flag.ErrHelp):
			return exitOK
		case errors.As(err, &wrong):
			fmt.Fprintf(env.err, "coldtap %s: %v\n", c.name, err)
			return exitUsage
		}
		fmt.Fprintf(env.err, "coldtap %s: %v\n", c.name, err)
		return exitFailed
	}
	fmt.Fprintf(env.err, "coldtap: unknown command %q; `coldtap help` lists them\n", args[0])
	return exitUsage
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, "coldtap reads Kafka's history from an object store, without the brokers.\n\nUsage:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  coldtap %-8s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\n`coldtap COMMAND --help` shows a command's flags and an example. Start with `coldtap demo`.\n")
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

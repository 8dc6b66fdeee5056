// Command coldtap reads Kafka's history from an object store, without the brokers.
//
//	coldtap demo                              everything on embedded parts, with a sample of real segments
//	coldtap offload --standalone --once …     copies closed segments of a stopped broker into the tier
//	coldtap serve --config coldtap.yaml       answers reads over HTTP
//
// Exit codes: 0 fine, 1 failed while running, 2 wrong usage or configuration.
//
// A command is a function in a file of its own that gives a *cobra.Command with Use, Short, Example, Args and RunE;
// newRoot lists them. RunE uses the environment, whose logger is ready by then, and returns usage(…) for what the user
// has to mend.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"coldtap/internal/config"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// environment is what a command may touch of the outside, so that tests can run commands in-process.
type environment struct {
	out, err io.Writer
	log      *slog.Logger // as --log-level and --log-format say; made before a command's RunE
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

// run does what a command line says and gives the exit code.
func run(ctx context.Context, env environment, args []string) int {
	root := newRoot(&env)
	root.SetArgs(args)
	if len(args) == 0 {
		root.SetArgs([]string{"--help"})
	}
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil && len(args) == 0:
		return exitUsage
	case err == nil:
		return exitOK
	}
	fmt.Fprintf(env.err, "%s: %s\n", cmd.CommandPath(), config.Redact(err.Error()))
	if env.log == nil { // no command has begun
		fmt.Fprintf(env.err, "See `%s --help`.\n", cmd.CommandPath())
		return exitUsage
	}
	if _, wrong := errors.AsType[usageError](err); wrong {
		return exitUsage
	}
	return exitFailed
}

func init() { cobra.EnableCommandSorting = false } // help lists commands in the order in which they are needed

// newRoot is the whole command line.
func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:     "coldtap",
		Short:   "coldtap reads Kafka's history from an object store, without the brokers.",
		Example: "  coldtap demo",
		Version: version,

		SilenceErrors: true, // run prints them, once
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
				return err
			}
			env.log, err = newLogger(env.err, cmd.Flag("log-level").Value.String(), cmd.Flag("log-format").Value.String())
			return err
		},
	}
	root.SetOut(env.out)
	root.SetErr(env.err)
	root.SetVersionTemplate(versionText())
	logFlags(root, "info")
	root.AddCommand(
		demoCommand(env),
		serveCommand(env),
		offloadCommand(env),
		exportCommand(env),
		inspectCommand(env),
		configCommand(env),
		benchCommand(env),
		versionCommand(env),
	)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		}
	}
	return root
}

// group makes a command of its sub-commands, one of which must be given.
func group(cmd *cobra.Command, of ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range of {
		names = append(names, c.Name())
	}
	cmd.AddCommand(of...)
	cmd.SuggestionsMinimumDistance = 2 // edits
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch list := strings.Join(names, ", "); {
		case len(args) == 0:
			return usage("a command is missing: %s", list)
		case len(cmd.SuggestionsFor(args[0])) > 0:
			return usage("unknown command %q; did you mean %s?", args[0], strings.Join(cmd.SuggestionsFor(args[0]), " or "))
		default:
			return usage("unknown command %q, not one of %s", args[0], list)
		}
	}
	cmd.RunE = func(*cobra.Command, []string) error { return nil } // makes cobra look at the arguments
	return cmd
}

// operand accepts the one argument that is named, or none where the name is empty; in brackets it may be left out.
func operand(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		most := min(len(name), 1)
		switch {
		case len(args) > most:
			return usage("unexpected argument %q", args[most])
		case len(args) < most && !strings.HasPrefix(name, "["):
			return usage("%s is missing", name)
		}
		return nil
	}
}

package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"

	"coldtap/internal/config"
)

// common are the flags that every command has.
type common struct {
	set       *flag.FlagSet
	logLevel  string
	logFormat string
}

// newFlags starts a command's flags; example is shown by --help.
func newFlags(env environment, name, summary, example string) *common {
	c := &common{set: flag.NewFlagSet(name, flag.ContinueOnError)}
	c.set.SetOutput(env.err)
	c.set.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
	c.set.StringVar(&c.logFormat, "log-format", "text", "text or json")
	c.set.Usage = func() {
		fmt.Fprintf(env.out, "%s\n\nUsage: coldtap %s [flags]\n\nExample:\n  %s\n\nFlags:\n", summary, name, example)
		c.set.SetOutput(env.out)
		c.set.PrintDefaults()
		c.set.SetOutput(env.err)
	}
	return c
}

// parse reads the arguments and makes the logger.
func (c *common) parse(env environment, args []string) (*slog.Logger, error) {
	c.set.SetOutput(io.Discard) // errors are printed once, by run
	err := c.set.Parse(args)
	c.set.SetOutput(env.err)
	if err == flag.ErrHelp {
		return nil, err
	}
	if err != nil {
		return nil, usageError{err}
	}
	if c.set.NArg() > 0 {
		return nil, usage("unexpected argument %q", c.set.Arg(0))
	}
	return newLogger(env.err, c.logLevel, c.logFormat)
}

// configFlags are the flags of commands that read a configuration file.
type configFlags struct {
	path  string
	check bool
	print bool
}

func (f *configFlags) register(set *flag.FlagSet) {
	set.StringVar(&f.path, "config", "coldtap.yaml", "configuration `file`")
	set.BoolVar(&f.check, "check", false, "validate the configuration, list all problems, and exit")
	set.BoolVar(&f.print, "print-config", false, "print the configuration with every default filled in, and exit")
}

// load reads the configuration. done is true when --check or --print-config have said all there is to say.
func (f *configFlags) load(env environment) (cfg config.Config, done bool, err error) {
	cfg, err = config.Load(f.path)
	if err != nil {
		return cfg, false, usageError{err}
	}
	if f.print {
		return cfg, true, cfg.Print(env.out)
	}
	if f.check {
		if err := checkFiles(cfg); err != nil {
			return cfg, false, usageError{err}
		}
		fmt.Fprintf(env.out, "%s is valid\n", f.path)
		return cfg, true, nil
	}
	return cfg, false, nil
}

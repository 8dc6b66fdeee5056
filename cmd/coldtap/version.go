package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for releases.
var version = "dev"

func runVersion(_ context.Context, env environment, args []string) error {
	flags := newFlags(env, "version", "Prints version, commit and Go version.", "coldtap version")
	if _, err := flags.parse(env, args); err != nil {
		return err
	}
	fmt.Fprintf(env.out, "coldtap %s\ncommit %s\n%s %s/%s\n", version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// commit is the revision that the Go tool stamped into the binary.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " (modified)"
		}
	}
	return revision + modified
}

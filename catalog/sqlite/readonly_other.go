//go:build !unix

package sqlite

func isReadOnly(string) bool { return false }

package layout

import "testing"

func TestVersions(t *testing.T) {
	v := newVersions(2)
	if !v.Learn("a", "1") || !v.Learn("b", "1") || !v.Learn("a", "1") {
		t.Error("a first or an equal version was refused")
	}
	if v.Learn("a", "2") {
		t.Error("another version was accepted")
	}
	v.Get("a")
	v.Learn("c", "1")
	if v.Get("a") != "1" || v.Get("b") != "" || v.Get("c") != "1" {
		t.Error("not the least recently used one was forgotten")
	}
	v.Forget("a")
	v.Forget("a")
	if v.Get("a") != "" || !v.Learn("a", "2") {
		t.Error("a forgotten version is still known")
	}
	if !v.Learn("d", "") || v.Get("d") != "" {
		t.Error("a store without versions was not accepted")
	}
}

package main

import (
	"os"
	"testing"
)

// TestCommentsAreFresh fails when the comments in the source are not those that
// the program shows: go generate ./gateway/config rewrites them.
func TestCommentsAreFresh(t *testing.T) {
	want, err := collectAll("../../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../comments.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("comments.json is stale: run go generate ./gateway/config")
	}
}

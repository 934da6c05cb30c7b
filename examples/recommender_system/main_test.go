package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

// The book stops at a square error of 6 stars; guessing the mean of these ratings comes to about 1.6.
func TestRatingsAreLearnedEverywhere(t *testing.T) {
	out := exampletest.Page(t, func(out string) error { return write(out, "", 20000) })
	local := executor.New()
	defer local.Close()
	for name, exe := range map[string]executor.Executor{"local": local, "cluster": exampletest.Cluster(t)} {
		exampletest.Train(t, exe, out, 5, "loss")
		if loss := exampletest.Mean(exampletest.Test(t, out, "loss")); loss > 1.2 {
			t.Errorf("%s: the square error is %g", name, loss)
		}
	}
}

func TestLaw(t *testing.T) {
	out := t.TempDir()
	if err := write(out, "", 1000); err != nil {
		t.Fatal(err)
	}
	exampletest.Obeys(t, out, "loss")
}

func TestFilesOfMovieLens(t *testing.T) {
	folder := t.TempDir()
	save := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	save("users.dat", "1::F::1::10::48067\n2::M::56::16::70072\n")
	save("movies.dat", "7::Toy Story (1995)::Animation|Comedy\n9::Heat (1995)::Action\n")
	save("ratings.dat", "1::7::5::978300760\n2::9::3::978302109\n")
	got, err := readMovieLens(folder)
	if err != nil || len(got.ratings) != 2 || got.ratings[1] != (rating{2, 9, 3}) || len(got.films[7][1]) != 3 || got.films[9][1][1] != got.films[7][1][2] {
		t.Errorf("%+v, %v", got, err)
	}
	if err := write(t.TempDir(), folder, 0); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"users.dat", "1::F::1::10\n", "users.dat:1: 4 fields"},
		{"users.dat", "-1::F::1::10::48067\n", "the number -1"},
		{"ratings.dat", "1::x::5::978300760\n", "invalid syntax"},
		{"ratings.dat", "3::7::5::978300760\n", "user 3 for film 7"},
	} {
		old, err := os.ReadFile(filepath.Join(folder, c.name))
		if err != nil {
			t.Fatal(err)
		}
		save(c.name, c.text)
		if err := write(t.TempDir(), folder, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v", c.name, c.text, err)
		}
		save(c.name, string(old))
	}
	if err := write(t.TempDir(), t.TempDir(), 0); err == nil {
		t.Error("an empty folder is read")
	}
}

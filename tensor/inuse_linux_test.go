package tensor

import (
	"bytes"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// parts are the results of inUse.
type part struct{ from, to int }

func partsOf(s iter.Seq2[int, int]) (list []part) {
	for from, to := range s {
		list = append(list, part{from, to})
	}
	return list
}

func covers(list []part, at int) bool {
	return slices.ContainsFunc(list, func(p part) bool { return p.from <= at && at < p.to })
}

// Whatever was written lies in a part, wherever the memory begins, and parts come in order. Copies, comparisons and clearing see all of it.
func TestPartsInUse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, skip := range []int{0, 1, 4095, 4096, 5000} {
		b := untouched(lazyLeast)[skip:]
		var written []int
		for range 40 {
			at := r.IntN(len(b))
			b[at] = 1
			written = append(written, at)
		}
		list := partsOf(inUse(b))
		for i, p := range list {
			if p.from < 0 || p.to > len(b) || p.from >= p.to || i > 0 && p.from < list[i-1].to {
				t.Fatalf("part %d of %v", i, list)
			}
		}
		for _, at := range written {
			if !covers(list, at) {
				t.Fatalf("byte %d is in none of %v", at, list)
			}
		}
		for range inUse(b) { // whoever has enough
			break
		}
		to := untouched(lazyLeast)[:len(b)]
		to[7], to[len(to)-1] = 1, 1
		CopyUsed(to, b)
		if !bytes.Equal(to, b) {
			t.Error("a copy differs")
		}
		if ZeroBytes(b) {
			t.Error("what was written is called zeros")
		}
		ClearUsed(b)
		if !ZeroBytes(b) || bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
			t.Error("not all bytes are cleared")
		}
	}
}

// Pages of a file have bytes before the system gives memory to them, so all of them are in use.
func TestPartsInUseOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := make([]byte, askLeast)
	content[askLeast/2] = 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := syscall.Mmap(int(f.Fd()), 0, askLeast, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(b) }()
	if list := partsOf(inUse(b)); !slices.Equal(list, []part{{0, askLeast}}) || ZeroBytes(b) {
		t.Errorf("%v, want all", list)
	}
}

// Memory that was never in use takes none when it is cleared, compared or copied, and none is in use after that.
func TestWhatWasNeverInUseIsNotRead(t *testing.T) {
	if pagemap() == nil {
		t.Skip("the system does not say which pages are in use")
	}
	to, from := untouched(lazyLeast), untouched(lazyLeast)
	from[lazyLeast/2] = 1
	ClearUsed(to)
	CopyUsed(to, from)
	ZeroBytes(to)
	for _, b := range [][]byte{to, from} {
		total := 0
		for begin, end := range inUse(b) {
			total += end - begin
		}
		if total > 4*hugePage { // the page that was written, and those at the ends that share one with others
			t.Errorf("%d bytes of %d are in use", total, len(b))
		}
	}
}

// What lies in one of two sequences of parts is yielded once, in order.
func TestEither(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	random := func() (list []part) {
		for at := 0; at < 40; {
			from := at + r.IntN(8)
			to := from + 1 + r.IntN(8)
			list = append(list, part{from, to})
			at = to + 1
		}
		return list[:r.IntN(len(list)+1)]
	}
	of := func(list []part) iter.Seq2[int, int] {
		return func(yield func(from, to int) bool) {
			for _, p := range list {
				if !yield(p.from, p.to) {
					return
				}
			}
		}
	}
	for range 500 {
		a, b := random(), random()
		got := partsOf(either(of(a), of(b)))
		for i, p := range got {
			if p.from >= p.to || i > 0 && p.from < got[i-1].to {
				t.Fatalf("%v of %v and %v", got, a, b)
			}
		}
		for at := range 60 {
			if covers(got, at) != (covers(a, at) || covers(b, at)) {
				t.Fatalf("%d: %v of %v and %v", at, got, a, b)
			}
		}
		for n := range got { // whoever has enough after some
			for range either(of(a), of(b)) {
				if n--; n < 0 {
					break
				}
			}
		}
	}
}

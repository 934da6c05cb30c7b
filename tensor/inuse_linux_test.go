package tensor

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Whatever was written is in use, wherever the memory begins. Copies, comparisons and clearing see all of it.
func TestBlocksInUse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, skip := range []int{0, 1, 4095, 4096, 5000} {
		b := untouched(lazyLeast)[skip:]
		var written []int
		for range 40 {
			at := r.IntN(len(b))
			b[at] = 1
			written = append(written, at)
		}
		u := UsageOf(b)
		for _, at := range written {
			if u.unused(at) || u.Unused(at, at+1) {
				t.Fatalf("byte %d of a memory that begins %d bytes behind a page is not in use", at, skip)
			}
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
func TestBlocksInUseOfAFile(t *testing.T) {
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
	if u := UsageOf(b); u.used != nil || ZeroBytes(b) {
		t.Errorf("of a file %v is in use, want all", u.used)
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
		for _, blocks := range UsageOf(b).used {
			total += bits.OnesCount64(blocks) * usageBlock
		}
		if total == 0 && b[lazyLeast/2] != 0 || total > 4*hugePage { // the page that was written, and those at the ends that share one with others
			t.Errorf("%d bytes of %d are in use", total, len(b))
		}
	}
}

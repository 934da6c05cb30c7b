package checkpoint

import (
	"os"
	"sync"
)

// earlyBytes is how much of a file is written before the disk is asked to begin. Less would make many small requests of it.
const earlyBytes = 8 << 20

// An early writer appends to a file that is to be synced, and asks the system to put on the disk what it has, while more is written: so the disk works while sums
// are computed, and Sync has little left to wait for. end must follow.
type early struct {
	to      *os.File
	written int64          // bytes
	asked   int64          // of these, that the disk was asked for
	ends    chan int64     // up to which byte to ask next; nil before the first time
	asking  sync.WaitGroup // the goroutine that asks, because that may wait for the disk
}

func (e *early) Write(p []byte) (int, error) {
	n, err := e.to.Write(p)
	e.written += int64(n)
	if e.written-e.asked < earlyBytes || err != nil {
		return n, err
	}
	if e.ends == nil {
		e.ends = make(chan int64, 1)
		e.asking.Go(e.ask)
	}
	select {
	case e.ends <- e.written:
		e.asked = e.written
	default: // the disk is behind: it will be asked for more at once
	}
	return n, nil
}

func (e *early) ask() {
	from := int64(0)
	for end := range e.ends {
		startWriteback(e.to, from, end-from)
		from = end
	}
}

// end waits until nobody uses the file any more. Nothing may be written after it.
func (e *early) end() {
	if e.ends != nil {
		close(e.ends)
		e.asking.Wait()
	}
}

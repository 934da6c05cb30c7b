package trainer

import "sync"

// A contribution is what a step sends to one server. It is safe for concurrent use.
type contribution struct {
	mu      sync.Mutex
	values  [][]byte // by slice
	has     []bool   // values that the step has made
	count   int      // of them
	ready   []int    // that are not written to this connection
	bytes   int      // of those
	writing bool     // they are written while the step goes on
}

// begin begins a step. A contribution has so many slices.
func (c *contribution) begin(slices int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values, c.has = make([][]byte, slices), make([]bool, slices)
	}
	clear(c.values)
	clear(c.has)
	c.ready, c.bytes, c.count, c.writing = c.ready[:0], 0, 0, false
}

// add enters a slice. write reports whether enough is there to be written before the barrier; the caller then does that, and calls written.
func (c *contribution) add(slice int, b []byte) (write, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.has[slice] {
		return false, false
	}
	c.values[slice], c.has[slice] = b, true
	c.ready = append(c.ready, slice)
	c.bytes += len(b)
	c.count++
	write = c.bytes >= early && !c.writing
	c.writing = c.writing || write
	return write, true
}

// written says that what add has asked for is done.
func (c *contribution) written() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = false
}

// take appends the slices to list that are ready. They are not ready any more.
func (c *contribution) take(list []int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = append(list, c.ready...)
	c.ready, c.bytes = c.ready[:0], 0
	return list
}

// again makes all slices ready that the step has made, or none.
func (c *contribution) again(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready, c.bytes = c.ready[:0], 0
	for i, has := range c.has {
		if has && all {
			c.ready = append(c.ready, i)
			c.bytes += len(c.values[i])
		}
	}
}

// early is how many bytes of a contribution are worth a message of their own while the step still computes. Less goes with the rest, at the barrier.
const early = 256 << 10

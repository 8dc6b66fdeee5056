package segment

// Budget bounds memory for decompression. Reserve may block or refuse; nil Budget = no bound but the limit.
//
// A Decoder that grows may hold one reservation while it waits for a larger one, so a Reserve that blocks must end by
// refusing, else two decoders can wait for each other for ever.
type Budget interface {
	Reserve(n int64) error
	Release(n int64)
}

// minBuffer is the smallest output buffer. Kafka's batches are mostly under 16 KiB (batch.size), 2 to 4 times that
// decompressed.
const minBuffer = 16 << 10

// output is where a Decoder decompresses to: a buffer that grows geometrically, each growth reserved first, and that is
// kept from batch to batch.
type output struct {
	b        []byte
	limit    int64
	budget   Budget
	reserved int64
}

func (o *output) reserve(n int64) error {
	if o.budget != nil {
		if err := o.budget.Reserve(n); err != nil {
			return &Error{Kind: OverBudget, Op: "decompression", Position: -1, Err: err}
		}
	}
	o.reserved += n
	return nil
}

func (o *output) release(n int64) {
	if o.budget != nil && n > 0 {
		o.budget.Release(n)
	}
	o.reserved -= n
}

// close gives everything back.
func (o *output) close() {
	o.release(o.reserved)
	o.b = nil
}

// room makes sure that n more bytes fit, up to the limit.
func (o *output) room(n int64, op string) error {
	need := int64(len(o.b)) + n
	if n > o.limit || need > o.limit {
		return o.tooLarge(op)
	}
	return o.grow(need, min(2*int64(cap(o.b)), o.limit))
}

// grow makes the capacity at least need, and better preferred if that is more. Old and new buffer exist together while
// bytes move, so both stay reserved until then; without bytes to move the old one goes first.
func (o *output) grow(need, preferred int64) error {
	if need <= int64(cap(o.b)) {
		return nil
	}
	size := max(need, preferred, min(minBuffer, o.limit))
	old := int64(cap(o.b))
	if len(o.b) == 0 {
		o.b = nil
		o.release(old)
		old = 0
	}
	if err := o.reserve(size); err != nil {
		return err
	}
	b := make([]byte, len(o.b), size)
	copy(b, o.b)
	o.b = b
	o.release(old)
	return nil
}

func (o *output) tooLarge(op string) error {
	return fail(TooLarge, op, -1, "more than %d bytes decompressed", o.limit)
}

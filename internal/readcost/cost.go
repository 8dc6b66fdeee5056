// Package readcost counts what a read takes from the object store. It is a package of its own because caches, which
// know no stores, hand the counts on from their loaders to their callers.
package readcost

// Cost is what reading took from the store, retries included.
type Cost struct {
	Requests  int   // GETs sent
	Bytes     int64 // body bytes received
	Throttled int   // how many of the requests the store answered with "slow down"
}

// Add adds what a further read took.
func (c *Cost) Add(more Cost) {
	c.Requests += more.Requests
	c.Bytes += more.Bytes
	c.Throttled += more.Throttled
}

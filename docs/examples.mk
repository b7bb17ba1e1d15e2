# SPDX-License-Identifier: BSD-3-Clause
# Builds the examples with nothing but an installed libcoll, which pkg-config finds.  The folders backend and observer have
# Makefiles of their own.  A copy of this folder is a place to build in.
CFLAGS = -O2
CPPFLAGS = -DDIGITS_DATA='"$(CURDIR)/data"'
COLL_CFLAGS = $(shell pkg-config --cflags coll)
COLL_LIBS = $(shell pkg-config --libs coll) -Wl,-rpath,$(shell pkg-config --variable=libdir coll)

all: hello digits overlap

%: %.c
	$(CC) $(CPPFLAGS) $(COLL_CFLAGS) $(CFLAGS) $< $(LDFLAGS) -pthread $(COLL_LIBS) -lm -ldl -o $@

digits: device.h

clean:
	rm -f hello digits overlap

.PHONY: all clean

# Every target prepares the machine first (tests/bootstrap) and then starts a program of tests/; nothing to do costs a fraction of a second.

ENTER := sh tests/bootstrap/enter.sh

# The word $2 where the variable named $1 is 1, nothing where it is 0 or not set.
flag = $(if $(filter 1,$($1)),$2,$(if $(filter-out 0,$($1)),$(error $1 is '$($1)'; it takes 1 (yes) or 0 (no))))

.DEFAULT_GOAL := help
.PHONY: help demo test check soak bench docs shared clean

help:
	@echo "make demo    the main job, seen working on a test bed of real parts (KEEP=1 leaves it up, SPARK=1 runs a real Spark)"
	@echo "make test    every gate; those that passed on the same files are not run again (FRESH=1 runs all)"
	@echo "make check   lint, types and unit tests, in less than 2 minutes (GATE='NAME ...' runs only those of all gates)"
	@echo "make soak    the long random and fault tests, with new seeds (GATE='NAME ...' runs parts of them)"
	@echo "make bench   the figures in docs/ (GATE='NAME ...' runs parts of them)"
	@echo "make docs    builds the documentation site: guides, glossary, reference of modules and roles"
	@echo "make shared  copies the files that several programs share from their one source"
	@echo "make clean   takes the test beds down and removes the cache"

demo:
	@$(ENTER) demo$(call flag,SPARK,-spark) $(call flag,KEEP,--keep)

test:
	@$(ENTER) $(if $(GATE),gate $(GATE),test)

check:
	@$(ENTER) $(if $(GATE),gate $(GATE),check)

soak bench:
	@$(ENTER) $@ $(GATE)

docs shared clean:
	@$(ENTER) $@

create schema source
